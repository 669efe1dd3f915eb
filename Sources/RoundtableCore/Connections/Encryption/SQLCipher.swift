import CRoundtableShims
import GRDBSQLite

/// The functions of SQLCipher, if the SQLite library of this program is one.
package enum SQLCipher {
    /// The version, such as `4.19.0 community`; nil when the library is not SQLCipher. Such a library silently ignores keys.
    package static let version: String? = {
        var connection: OpaquePointer?
        defer { sqlite3_close_v2(connection) }
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_open_v2(":memory:", &connection, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK,
            sqlite3_prepare_v2(connection, "PRAGMA cipher_version", -1, &statement, nil) == SQLITE_OK,
            sqlite3_step(statement) == SQLITE_ROW, let text = sqlite3_column_text(statement, 0)
        else { return nil }
        return String(cString: text)
    }()

    typealias KeyFunction =
        @convention(c) (OpaquePointer?, UnsafePointer<CChar>?, UnsafeRawPointer?, CInt) -> CInt

    /// `sqlite3_key_v2`, which trace callbacks do not see. It is looked up at run time, because GRDB is compiled against SQLite, which does
    /// not have it. nil also when the library does not export it.
    static let keyFunction: KeyFunction? = {
        let neighbour: @convention(c) () -> UnsafePointer<CChar>? = sqlite3_libversion
        return rt_symbol_beside(unsafeBitCast(neighbour, to: UnsafeRawPointer.self), "sqlite3_key_v2")
            .map { unsafeBitCast($0, to: KeyFunction.self) }
    }()

    /// - throws: ``EncryptionError/noSQLCipher(path:sqliteVersion:)``, ``EncryptionError/oldSQLCipher(path:version:)``.
    static func check(path: String) throws(EncryptionError) {
        guard let version else {
            throw .noSQLCipher(path: path, sqliteVersion: String(cString: sqlite3_libversion()))
        }
        let major = version.prefix { $0.isNumber }
        if (Int(major) ?? 0) < 4 { throw .oldSQLCipher(path: path, version: version) }
    }
}
