import Dispatch
import Foundation
import GRDB
import RoundtableKernel

extension SharedDatabase {
    /// Opens a database for reading and writing, and creates and migrates it if necessary. Any number of processes may do this at
    /// the same time: one of them does the work, and the others wait for it.
    ///
    /// - Parameters:
    ///   - url: the database file. Its folder must exist.
    ///   - schema: the schema that this process expects, and the migrations that lead to it.
    ///   - author: the name of this participant for other processes, such as `"app"` or `"share extension"`.
    ///   - options: how to wait and write.
    /// - throws: ``SharedDatabaseError``; ``OutboxError`` for ``Options/outboxFolder``; ``EncryptionError``; `DatabaseError` with
    ///   `SQLITE_NOTADB`, `SQLITE_CANTOPEN`, `SQLITE_FULL` …; `SQLITE_BUSY` when another process has been creating or migrating
    ///   the database for longer than ``Options/setupTimeout``; what a migration throws.
    public static func open(
        at url: URL,
        schema: Schema,
        as author: String,
        options: Options = Options()
    ) async throws -> SharedDatabase {
        try await whileOpen(options) { try openNow(at: url, schema: schema, as: author, options: options) }
    }

    /// Opens the database as the async function of the same name does, and blocks the calling thread.
    @_disfavoredOverload
    public static func open(
        at url: URL,
        schema: Schema,
        as author: String,
        options: Options = Options()
    ) throws -> SharedDatabase {
        try whileOpen(options) { try openNow(at: url, schema: schema, as: author, options: options) }
    }

    /// Opens a database for reading that other processes create and migrate.
    ///
    /// The result reports a missing database or another schema; these are not errors. Roundtable creates nothing, not even a
    /// control block. (SQLite creates `-wal` and `-shm` beside a database in WAL mode that has lost them.)
    ///
    /// - throws: ``SharedDatabaseError``; ``OutboxError`` for ``Options/outboxFolder``; ``EncryptionError``; `DatabaseError`.
    public static func openReadOnly(
        at url: URL,
        schema: Schema,
        as author: String,
        options: Options = Options()
    ) async throws -> Availability {
        try await whileOpen(options) { try openReadOnlyNow(at: url, schema: schema, as: author, options: options) }
    }

    /// Opens the database as the async function of the same name does, and blocks the calling thread.
    @_disfavoredOverload
    public static func openReadOnly(
        at url: URL,
        schema: Schema,
        as author: String,
        options: Options = Options()
    ) throws -> Availability {
        try whileOpen(options) { try openReadOnlyNow(at: url, schema: schema, as: author, options: options) }
    }

    /// Opens a database for reading, and waits until other processes have created and migrated it.
    ///
    /// - Parameters:
    ///   - url: the database file.
    ///   - schema: what this process expects.
    ///   - author: the name of this participant for other processes.
    ///   - options: how to read.
    ///   - timeout: how long to wait. When it passes, the function returns the last reason why the database is unavailable. It
    ///     returns at once if the schema is too new, because waiting would not change that.
    public static func openReadOnly(
        at url: URL,
        schema: Schema,
        as author: String,
        options: Options = Options(),
        waitingUpTo timeout: Duration
    ) async throws -> Availability {
        let deadline = ContinuousClock.now + timeout
        var pause = Duration.milliseconds(2)
        while true {
            let answer = try await openReadOnly(at: url, schema: schema, as: author, options: options)
            switch answer {
            case .available, .unavailable(.schemaTooNew): return answer
            case .unavailable: break
            }
            let now = ContinuousClock.now
            guard now < deadline else { return answer }
            try await Task.sleep(for: min(pause, deadline - now))
            pause = min(pause * 2, .milliseconds(50))
        }
    }

    /// The result of opening a database read-only.
    public enum Availability: Sendable {
        case available(SharedDatabase)
        case unavailable(Unavailability)
    }

    /// Why a read-only process cannot use the database now.
    public enum Unavailability: Sendable, Equatable {
        /// There is no file or no folder, or the file has none of the schema's migrations. No read-write process has created the
        /// database yet, or one is creating it.
        case notCreated
        /// A read-write process still has to apply these migrations.
        case schemaTooOld(missing: [String])
        /// These migrations are unknown to this program, which is older than the one that applied them.
        case schemaTooNew(unknown: [String])
    }
}

extension SharedDatabase {
    /// Calls `open`. If the gate was closed, it waits for the gate and retries, or throws if ``Options/whileSuspended`` is
    /// `.fail`.
    private static func whileOpen<T: Sendable>(
        _ options: Options,
        _ open: @escaping @Sendable () throws -> T
    ) async throws -> T {
        while true {
            do {
                return try await offThread { Result(catching: open) }.get()
            } catch let closed as GateClosed {
                if options.whileSuspended == .fail { throw DatabaseError.openingSuspended(closed.gate.path) }
                try await closed.gate.waitUntilOpen()
            }
        }
    }

    private static func whileOpen<T>(_ options: Options, _ open: () throws -> T) throws -> T {
        while true {
            do {
                return try open()
            } catch let closed as GateClosed {
                if options.whileSuspended != .wait { throw DatabaseError.openingSuspended(closed.gate.path) }
                closed.gate.waitUntilOpen()
            }
        }
    }

    private static func openNow(
        at url: URL,
        schema: Schema,
        as author: String,
        options: Options
    ) throws -> SharedDatabase {
        PlatformLifecycle.followOnce()
        let file = try DatabaseFile(url)
        try schema.check(path: file.path)
        try file.checkWritable()
        let outboxFolder = try options.outboxFolder(ofDatabaseAt: file.path)
        let extensions = try schema.extensions.map(ExtensionRegistry.init)
        var options = options
        options.add(extensions?.functions ?? [])
        let company = try options.prepareTemporaryExtensions(beside: schema.extensions)
        let gate = SuspensionGate(path: file.path, policy: options.suspensionPolicy, process: options.process)
        // The opening stays inside the gate until the database follows the gate.
        let database = try gate.opening {
            options.keying = try options.encryption.flatMap { try Keying($0, of: file, mayCreate: true) }
            let watch = SchemaWatch(schema, path: file.path, options: options)
            let setUp = SetUp(
                file: file,
                schema: schema,
                extensions: extensions,
                author: author,
                options: options,
                gate: gate,
                watch: watch
            )
            let (writer, seat) = try CoordinatedCreation.perform(file, setUp.run)
            FileProtection.apply(options.protectionClass, to: file.path)
            return SharedDatabase(
                path: file.path,
                author: author,
                role: .readWrite,
                options: options,
                outboxFolder: outboxFolder,
                writer: writer,
                seat: seat,
                gate: gate,
                extensions: extensions
            )
        }
        company?.take(database)
        do {
            if let reason = company?.refusal, let first = options.temporaryExtensions.first {
                throw ExtensionError.temporaryNotAllowed(path: file.path, name: first.name, reason: reason)
            }
            database.extensionBuilder?.begin(database)
            try database.beginOutbox(options)
        } catch {
            try? database.close()
            throw error
        }
        return database
    }

    private static func openReadOnlyNow(
        at url: URL,
        schema: Schema,
        as author: String,
        options: Options
    ) throws -> Availability {
        PlatformLifecycle.followOnce()
        let file = try DatabaseFile(url)
        try schema.check(path: file.path)
        guard !file.isAbsentOrEmpty else { return .unavailable(.notCreated) }
        let outboxFolder = try options.outboxFolder(ofDatabaseAt: file.path)
        var options = options
        options.add(try schema.extensions.map(ExtensionRegistry.init)?.functions ?? [])
        _ = try options.prepareTemporaryExtensions(beside: schema.extensions)
        let gate = SuspensionGate(path: file.path, policy: options.suspensionPolicy, process: options.process)
        // The first reader may have to recover the wal-index, under locks like a writer's. The opening stays inside the gate
        // until the database follows the gate.
        return try gate.opening {
            if let encryption = options.encryption {
                guard let keying = try Keying(encryption, of: file, mayCreate: false) else {
                    return .unavailable(.notCreated)
                }
                options.keying = keying
            }
            let connection: WriterConnection
            let state: SchemaState
            do {
                connection = try WriterConnection(
                    readOnlyAt: file.path,
                    options: options,
                    gate: gate,
                    watch: SchemaWatch(schema, path: file.path, options: options)
                )
                state = try connection.queue.read { db in
                    // Without WAL, readers hold locks for which the system kills the process.
                    if try String.fetchOne(db, sql: "PRAGMA journal_mode") != "wal" { gate.releaseEverything() }
                    return try connection.schemaStateAtOpening(db)
                }
            } catch let error as DatabaseError {
                // The file may have been removed, or another process may be creating it, since the check above.
                if try DatabaseFile(url).isAbsentOrEmpty { return .unavailable(.notCreated) }
                try ReadingPlace.refuseStill(databasePath: file.path)
                throw error.naming(file.path)
            }
            switch state {
            case .absent: return .unavailable(.notCreated)
            case .tooOld(let missing): return .unavailable(.schemaTooOld(missing: missing))
            case .tooNew(let unknown): return .unavailable(.schemaTooNew(unknown: unknown))
            case .current: break
            }
            let seat = Seat(
                databasePath: file.path,
                author: author,
                role: .readOnly,
                settings: options.turnSettings,
                access: nil
            )
            return .available(
                SharedDatabase(
                    path: file.path,
                    author: author,
                    role: .readOnly,
                    options: options,
                    outboxFolder: outboxFolder,
                    writer: connection,
                    seat: seat,
                    gate: gate
                )
            )
        }
    }
}
