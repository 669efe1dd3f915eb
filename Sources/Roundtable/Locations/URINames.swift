import GRDBSQLite

/// Whether names of files are URIs where they begin with `file:`. GRDB leaves it to how SQLite was built or set up
/// ([SQLITE_USE_URI](https://www.sqlite.org/compile.html#use_uri)), and otherwise SQLite would create a file of that name.
enum URINames {
    /// SQLite keeps to it for the life of the process, once it is initialized.
    static let areRead: Bool = {
        var connection: OpaquePointer?
        defer { sqlite3_close_v2(connection) }
        // Taken for a file, it is not created.
        let code = sqlite3_open_v2("file:roundtable?mode=memory", &connection, SQLITE_OPEN_READWRITE, nil)
        return code == SQLITE_OK && sqlite3_db_filename(connection, "main").map { $0.pointee == 0 } ?? true
    }()

    /// - throws: ``DatabaseLocationError/urisAreOff(location:)``
    static func check(_ name: String, areRead: Bool = areRead) throws(DatabaseLocationError) {
        if name.utf8.starts(with: "file:".utf8), !areRead { throw .urisAreOff(location: name) }
    }
}
