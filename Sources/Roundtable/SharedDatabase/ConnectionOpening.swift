import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

/// The one place where connections to a shared database are opened: each of an encrypted one is keyed (rule C6), and none is opened while the
/// database is looked at from outside (``WalIndexGate``).
struct ConnectionOpening: Sendable {
    let path: String
    /// nil for a database in plain text.
    let keying: Keying?
    /// How long each connection waits for others that create, recover or close the database (rule W9).
    let timeout: Nanoseconds

    /// - Parameters:
    ///   - name: what SQLite is to open; nil: the path.
    ///   - timeout: nil: that of all connections.
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
            let queue = try DatabaseQueue(path: name ?? path, configuration: configuration)
            try queue.inDatabase { db in
                try SharedCache.refuse(db, path: path)
                OwnConnection.mark(db)
                OpenFile.note(db, path: path)
            }
            return queue
        }
        do {
            if let name { try URINames.check(name) }
            guard let keying else {
                return try WalIndexGate.open { try open(configuration) }
            }
            // Outside of the gate: the provider is the user's.
            let key = ConnectionKey(try keying.keyBytes(), settings: keying.settings, path: path)
            var configuration = configuration
            configuration.prepareDatabase { db in try key.check(db.sqliteConnection) }
            return try WalIndexGate.open { try key.whilePending { try open(configuration) } }
        } catch let error as DatabaseError {
            throw explained(error)
        }
    }

    /// What SQLite makes of a database with the wrong key, or with none, depends on what it reads.
    private func explained(_ error: DatabaseError) -> any Error {
        guard [.SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_CORRUPT].contains(error.resultCode),
            let kind = try? DatabaseHeader.look(at: path)
        else { return error }
        // SQLCipher's word for a page that it cannot decrypt; the second where the first page is in the WAL.
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

/// The key of a connection that is being opened. SQLite gives it to the connection itself, before GRDB sees that, and before anybody could
/// trace or log what is run on it.
private final class ConnectionKey: @unchecked Sendable {
    // @unchecked: used by one thread, which opens the connection.
    private let path: String
    private let bytes: Secret
    private let settings: String
    /// What SQLCipher said, by the addresses of connections.
    private var outcomes: [OpaquePointer: CInt] = [:]

    init(_ bytes: Secret, settings: String, path: String) {
        self.path = path
        self.bytes = bytes
        self.settings = settings
    }

    /// - parameter body: opens a connection to the file, with ``check(_:)`` in its configuration.
    func whilePending<T>(_ body: () throws -> T) throws -> T {
        // Once is enough; more do no harm, and whoever resets the list does none.
        let code = sqlite3_auto_extension(Self.entryPoint)
        guard code == SQLITE_OK else { throw EncryptionError.keyRefused(path: path, code: code) }
        let thread = Thread.current.threadDictionary
        let outer = thread[Self.name]
        thread[Self.name] = self
        defer {
            thread[Self.name] = outer
            // GRDB keeps the configuration, and so this object, as long as the connection.
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

    /// That it is the connection itself which has the key. Others can be opened within its opening, by an automatic extension of the user's, and
    /// others may have removed ours.
    func check(_ connection: OpaquePointer?) throws {
        if let connection, outcomes[connection] == SQLITE_OK { return }
        throw EncryptionError.keyRefused(path: path, code: SQLITE_MISUSE)
    }

    private static let name = "Roundtable.ConnectionKey"

    /// Runs in the thread that opens a connection, any in this process, when SQLite has opened it.
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

    /// Others that the thread opens meanwhile are somebody else's. SQLite has created the file by now, and follows links as we do.
    private func isOfFile(of connection: OpaquePointer) -> Bool {
        guard let name = sqlite3_db_filename(connection, "main").map({ String(cString: $0) }), !name.isEmpty else {
            return false
        }
        if name.utf8.elementsEqual(path.utf8) { return true }
        guard let named = try? System.status(ofFileAt: name), let own = try? System.status(ofFileAt: path) else {
            return false
        }
        return named.st_dev == own.st_dev && named.st_ino == own.st_ino
    }

    /// SQLite's type for it has no parameters.
    private static var entryPoint: @convention(c) () -> Void {
        unsafeBitCast(keyConnection, to: (@convention(c) () -> Void).self)
    }

    private func give(to connection: OpaquePointer) -> CInt {
        let code = giveKey(to: connection)
        return code == SQLITE_OK ? sqlite3_exec(connection, settings, nil, nil, nil) : code
    }

    /// SQLite's messages are not looked at: they could tell the key. And a statement is told to those who trace the connection, as another automatic
    /// extension may already.
    private func giveKey(to connection: OpaquePointer) -> CInt {
        guard let give = SQLCipher.keyFunction else {
            let statement = Keying.statement(bytes)
            return statement.withCString { sqlite3_exec(connection, $0, nil, nil, nil) }
        }
        return bytes.withBytes { give(connection, "main", $0.baseAddress, CInt($0.count)) }
    }
}
