import GRDBSQLite

/// Whether SQLite reads file names that begin with `file:` as URIs. GRDB leaves this to how SQLite was built or configured
/// ([SQLITE_USE_URI](https://www.sqlite.org/compile.html#use_uri)). If SQLite does not, it would create a file of that name.
enum URINames {
    /// Whether SQLite reads URIs. This does not change during the life of the process, once SQLite is initialized.
    static let areRead: Bool = {
        var connection: OpaquePointer?
        defer { sqlite3_close_v2(connection) }
        // If SQLite takes the URI for a file name, the file is not created, because SQLITE_OPEN_CREATE is not set.
        let code = sqlite3_open_v2("file:roundtable?mode=memory", &connection, SQLITE_OPEN_READWRITE, nil)
        return code == SQLITE_OK && sqlite3_db_filename(connection, "main").map { $0.pointee == 0 } ?? true
    }()

    /// - throws: ``DatabaseLocationError/urisAreOff(location:)``
    static func check(_ name: String, areRead: Bool = areRead) throws(DatabaseLocationError) {
        if name.utf8.starts(with: "file:".utf8), !areRead { throw .urisAreOff(location: name) }
    }
}
