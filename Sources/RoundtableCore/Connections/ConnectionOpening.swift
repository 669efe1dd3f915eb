import Foundation
import GRDB
import GRDBSQLite
import RoundtableGate
import RoundtableKernel

/// Opens all connections to a shared database. It keys the connections of an encrypted database (rule C6), and opens no
/// connection while the database is inspected from outside (``WalIndexGate``).
struct ConnectionOpening: Sendable {
    let path: String
    /// nil for a database in plain text.
    let keying: Keying?
    /// The role of the participant. A read-only one may find the wal-index read-only.
    let role: SharedDatabase.Role
    /// How long each opening waits for other connections that create, recover or close the database (rule W9).
    let timeout: Nanoseconds
    /// Whether the connection has the same files open as the others; nil: not compared.
    var files: DatabaseFiles?

    /// - Parameters:
    ///   - name: the name that SQLite opens; nil: the path.
    ///   - timeout: how long this opening waits; nil: the timeout of all connections.
    ///   - gate: ends the wait when it closes.
    /// - throws: ``EncryptionError``; what SQLite and the configuration throw.
    func queue(
        _ configuration: Configuration,
        at name: String? = nil,
        timeout: Nanoseconds? = nil,
        gate: SuspensionGate? = nil
    ) throws -> DatabaseQueue {
        let wait = OpeningWait(path: path, timeout: timeout ?? self.timeout, gate: gate)
        return try wait.queue(configuration) { try queueNow($0, at: name) }
    }

    private func queueNow(_ configuration: Configuration, at name: String?) throws -> DatabaseQueue {
        func open(_ configuration: Configuration) throws -> DatabaseQueue {
            for _ in 0..<3 {
                let queue = try DatabaseQueue(path: name ?? path, configuration: configuration)
                let isFileKnown = try queue.inDatabase { db in
                    try SharedCache.refuse(db, path: path)
                    OwnConnection.mark(db, files)
                    OpenFile.note(db, path: path)
                    return try files?.note(db) ?? true
                }
                // SQLite may have created the wal-index just now. A process that may not set its class leaves that to others.
                try? ProtectionClasses.present?.relax(path + "-shm", mappedWith: path)
                if isFileKnown { return queue }
                try queue.close()
            }
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: "\(path): other programs replace the file again and again. Open it when they have ended"
            )
        }
        if role == .readOnly { try ReadingPlace.refuseLockingOut(databasePath: path) }
        do {
            if let name { try URINames.check(name) }
            guard let keying else {
                return try WalIndexGate.open { try open(configuration) }
            }
            // The key provider is the user's code, so it runs outside of the wal-index gate.
            let key = ConnectionKey(try keying.keyBytes(), settings: keying.settings, path: path)
            var configuration = configuration
            configuration.prepareDatabase { db in try key.check(db.sqliteConnection) }
            return try WalIndexGate.open { try key.whilePending { try open(configuration) } }
        } catch let error as DatabaseError {
            throw explained(error)
        }
    }

    /// Translates SQLite's error into an encryption error. SQLite's error for a wrong or missing key depends on what it reads.
    private func explained(_ error: DatabaseError) -> any Error {
        guard [.SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_CORRUPT].contains(error.resultCode),
            let kind = try? DatabaseHeader.look(at: path)
        else { return error }
        // SQLCipher reports SQLITE_NOTADB for a page that it cannot decrypt, or SQLITE_CORRUPT if the first page is in the WAL.
        let isIllegible = error.resultCode == .SQLITE_NOTADB || error.resultCode == .SQLITE_CORRUPT
        switch (kind, isKeyed: keying != nil) {
        case (.encrypted, false): return EncryptionError.databaseIsEncrypted(path: path)
        case (.encrypted, true) where isIllegible: return EncryptionError.wrongKey(path: path)
        case (.plain, true) where isIllegible: return EncryptionError.databaseIsPlain(path: path)
        case (.unknown, true): return EncryptionError.unknownHeader(path: path)
        default: return error
        }
    }
}

/// The key of a connection that is being opened. An automatic extension of SQLite sets the key before GRDB sees the connection,
/// and before the statements of the connection can be traced or logged.
private final class ConnectionKey: @unchecked Sendable {
    // @unchecked: only the thread that opens the connection uses it.
    private let path: String
    private let bytes: Secret
    private let settings: String
    /// SQLCipher's result codes, by the addresses of the connections.
    private var outcomes: [OpaquePointer: CInt] = [:]

    init(_ bytes: Secret, settings: String, path: String) {
        self.path = path
        self.bytes = bytes
        self.settings = settings
    }

    /// - parameter body: opens a connection to the file, with ``check(_:)`` in its configuration.
    func whilePending<T>(_ body: () throws -> T) throws -> T {
        // SQLite ignores a repeated registration. Each opening registers again, because other code may reset SQLite's list.
        let code = sqlite3_auto_extension(Self.entryPoint)
        guard code == SQLITE_OK else { throw EncryptionError.keyRefused(path: path, code: code) }
        let thread = Thread.current.threadDictionary
        let outer = thread[Self.name]
        thread[Self.name] = self
        defer {
            thread[Self.name] = outer
            // GRDB keeps the configuration, and with it this object, as long as the connection.
            bytes.erase()
        }
        do {
            return try body()
        } catch {
            if let refusal = outcomes.values.first(where: { $0 != SQLITE_OK }) {
                throw EncryptionError.keyRefused(path: path, code: refusal)
            }
            throw error
        }
    }

    /// Checks that this connection itself was keyed. An automatic extension of the user's may open other connections meanwhile,
    /// and other code may have removed our automatic extension.
    func check(_ connection: OpaquePointer?) throws {
        if let connection, outcomes[connection] == SQLITE_OK { return }
        throw EncryptionError.keyRefused(path: path, code: SQLITE_MISUSE)
    }

    private static let name = "Roundtable.ConnectionKey"

    /// The automatic extension. SQLite calls it for every new connection of this process, on the thread that opens the
    /// connection.
    private static let keyConnection:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, OpaquePointer?
        ) -> CInt = { connection, _, _ in
            guard let key = Thread.current.threadDictionary[name] as? ConnectionKey, let connection,
                key.isOfFile(of: connection)
            else { return SQLITE_OK }
            let code = key.give(to: connection)
            key.outcomes[connection] = code
            return code
        }

    /// Whether the connection is to the file of this key. The thread may open connections to other files meanwhile. SQLite has
    /// created the file by now, and resolves links as we do.
    private func isOfFile(of connection: OpaquePointer) -> Bool {
        guard let name = sqlite3_db_filename(connection, "main").map({ String(cString: $0) }), !name.isEmpty else {
            return false
        }
        if name.utf8.elementsEqual(path.utf8) { return true }
        guard let named = try? System.identity(ofFileAt: name), let own = try? System.identity(ofFileAt: path) else {
            return false
        }
        return named == own
    }

    /// The entry point for SQLite, which declares its type without parameters.
    private static var entryPoint: @convention(c) () -> Void {
        unsafeBitCast(keyConnection, to: (@convention(c) () -> Void).self)
    }

    private func give(to connection: OpaquePointer) -> CInt {
        let code = giveKey(to: connection)
        return code == SQLITE_OK ? sqlite3_exec(connection, settings, nil, nil, nil) : code
    }

    /// SQLite's messages are not read, because they could contain the key. A statement is only used without SQLCipher's key
    /// function, because another automatic extension may already trace the statements of the connection.
    private func giveKey(to connection: OpaquePointer) -> CInt {
        guard let give = SQLCipher.keyFunction else {
            let statement = Keying.statement(bytes)
            return statement.withCString { sqlite3_exec(connection, $0, nil, nil, nil) }
        }
        return bytes.withBytes { give(connection, "main", $0.baseAddress, CInt($0.count)) }
    }
}
