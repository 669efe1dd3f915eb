import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel

/// The database was erased, or moved away, while it was being opened: it can be opened again.
struct DatabaseIsGone: Error {
    let path: String

    /// The error when that has happened again and again.
    var error: DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_CANTOPEN,
            message: "\(path): was moved away again and again while it was being opened. Open it when that has ended"
        )
    }
}

// Rule S5: A process that is killed at any point leaves a file that is absent, empty, in its old journal mode, or with a prefix of the
// migrations; the next opener continues.

// Rule C8: Of two processes that create a database at once with different keys, the second fails at its first read (S2).

/// Opens the writer connection of a database, after creating, switching to WAL and migrating it where that is needed
/// (rules S1–S6).
struct DatabaseSetUp {
    let file: DatabaseFile
    let schema: SharedSchema
    let features: [any DatabaseFeature]
    let author: String
    let options: SharedDatabase.Options
    let gate: SuspensionGate
    let watch: NewerSchemaWatch?

    /// - throws: ``GateClosed`` when the gate was closed before the set-up was done.
    func run() throws -> (WriterConnection, Seat) {
        do {
            return try openSetUp()
        } catch is DatabaseError where isGone {
            throw DatabaseIsGone(path: file.path)
        } catch let error as DatabaseError
            where [.SQLITE_BUSY, .SQLITE_FULL, .SQLITE_IOERR].contains(error.resultCode)
        {
            throw error.naming(file.path)
        }
    }

    private func openSetUp() throws -> (WriterConnection, Seat) {
        let deadline = MonotonicClock.now.addingSaturating(options.setupTimeout.nanoseconds)
        if file.isAbsentOrEmpty || schema.erasesOnChange {
            return try seated { seat in
                try seat.withSetupTurn(file, gate, until: deadline, isWriteLockFree: { true }) {
                    if file.isAbsentOrEmpty { try clearPlace() }
                    try eraseIfSchemaHasChanged(seat)
                    let writer = try openWriter(mayCreate: true)
                    writer.take(seat)
                    do {
                        try bringUpToDate(writer, until: deadline)
                    } catch let error as DatabaseError where options.keying != nil && error.isUnreadable {
                        // Another process may have created the database meanwhile, with another key (rule C8). SQLCipher reports that
                        // only to a connection that has not read before.
                        _ = try openWriter()
                        throw error
                    }
                    return writer
                }
            }
        }
        // The database is inspected before anything is written, a control block included.
        let writer = try openWriter()
        let isReady = try self.isReady(writer)
        return try seated { seat in
            writer.take(seat)
            if !isReady {
                try seat.withSetupTurn(file, gate, until: deadline, isWriteLockFree: { writer.isWriteLockFree }) {
                    try bringUpToDate(writer, until: deadline)
                }
            }
            return writer
        }
    }

    /// Takes a seat, and leaves it again if `body` fails.
    private func seated(_ body: (Seat) throws -> WriterConnection) throws -> (WriterConnection, Seat) {
        let seat = Seat(settingUp: file, as: author, options: options, gate: gate)
        do {
            return (try body(seat), seat)
        } catch {
            seat.leave()
            throw error
        }
    }

    /// Runs `body` on the writer's connection. A `SQLITE_BUSY` error names the process in the way, and how long this process waited.
    private func on<T>(_ writer: WriterConnection, _ body: (Database) throws -> T) throws -> T {
        try writer.namingObstacles {
            try writer.queue.inDatabase { db in try db.explainingReadOnly(file.path) { try body(db) } }
        }
    }

    /// Whether the database is not in its place any more that was there when the opening began. Any step may have failed for that reason.
    private var isGone: Bool {
        // It may have gone before its identity was recorded.
        guard let known = options.files?.databaseIdentity else { return options.files != nil && !file.isAbsentOrEmpty }
        return (try? System.identity(ofFileAt: file.path) != known) == true
    }

    private func openWriter(mayCreate: Bool = false) throws -> WriterConnection {
        do {
            return try WriterConnection(
                path: file.path,
                mayCreate: mayCreate,
                options: options,
                gate: gate,
                watch: watch,
                companions: features.compactMap { $0.writeCompanion() }
            )
        } catch let error as DatabaseError {
            throw error.naming(file.path)
        }
    }

    // Rule S1: An opener that finds a WAL database with all its migrations applied takes no turn.

    /// Whether the database needs no set-up (rule S1).
    private func isReady(_ writer: WriterConnection) throws -> Bool {
        try on(writer) { db in
            // The schema is checked first, because an opener that finds it too new must leave nothing behind.
            let found = try look(db, writer)
            guard try found.isMigrated && found.areCompanionsCurrent && db.isInWALMode() else { return false }
            try db.checkWalFilesAreWritable(file.path)
            return true
        }
    }

    /// What has been set up.
    ///
    /// - throws: ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``; why a feature may not write this database. An opener that
    ///   throws this must leave nothing behind.
    private func look(
        _ db: Database,
        _ writer: WriterConnection
    ) throws -> (isMigrated: Bool, areCompanionsCurrent: Bool) {
        let state = try writer.schemaStateAtOpening(db)
        if case .tooNew(let unknown) = state {
            throw SharedDatabaseError.schemaTooNew(path: file.path, unknownMigrations: unknown)
        }
        return (state == .current, try companions.allSatisfy { try $0.isCurrent(db) })
    }

    private var companions: [any SchemaCompanion] { features.compactMap(\.schemaCompanion) }

    // MARK: Under the turn

    /// Removes what is left of a database that was here before.
    private func clearPlace() throws {
        do {
            try MovedDatabase(file.path).clearPlace()
        } catch let error as SystemError {
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: "\(error). \(SystemErrorAdvice.next(error.errno))."
            )
        }
    }

    /// Erases a database with another schema, if a debug build asks for that.
    private func eraseIfSchemaHasChanged(_ seat: Seat) throws {
        guard schema.erasesOnChange, !file.isAbsentOrEmpty,
            try openWriter().queue.inDatabase({ try schema.hasChanged($0, options.configuration) })
        else { return }
        let names = FileUsers(databasePath: file.path).openers
        guard names.isEmpty else {
            throw SharedDatabaseError.erasesDatabaseOnSchemaChange(path: file.path, names: names)
        }
        _ = try MovedDatabase(file.path).move(.erasure, seat)
        // An empty file keeps the access rights, and is found by those who do not want to create one.
        try? System.makeFile(at: file.path, [], access: file.access, isDurable: false)
        throw DatabaseIsGone(path: file.path)
    }

    private func bringUpToDate(_ writer: WriterConnection, until deadline: Nanoseconds) throws {
        try on(writer) { db in
            // A database whose schema is too new is not changed.
            _ = try look(db, writer)
            try switchToWAL(db, writer, until: deadline)
            // The connection opens the WAL when it reads. Migrations would fail on one that is open for reading only, and after them, all
            // writes of this participant.
            _ = try Int.fetchOne(db, sql: "PRAGMA schema_version")
            try db.checkWalFilesAreWritable(file.path)
        }
        try migrate(writer)
        for companion in companions { try upgrade(companion, writer) }
    }

    private func upgrade(_ companion: any SchemaCompanion, _ writer: WriterConnection) throws {
        defer { writer.queue.inDatabase { _ in writer.endAccess() } }
        try on(writer) { db in
            if try companion.isCurrent(db) { return }
            try db.inTransaction(.immediate) {
                try companion.upgrade(db)
                return .commit
            }
        }
    }

    private func migrate(_ writer: WriterConnection) throws {
        guard let migrator = schema.migrator else { return }
        // Migrations write history, too, and drop the triggers of the tables that they recreate.
        writer.queue.inDatabase(writer.prepareOutsideTransaction)
        defer { writer.queue.inDatabase { _ in writer.endAccess() } }
        var tries = 0
        while try !on(writer, { try look($0, writer).isMigrated }) {
            try gate.checkOpen()
            if tries == 0 { try on(writer) { db in try companions.forEach { try $0.prepareMigrations(db) } } }
            let applied = try on(writer, migrator.appliedWhileOthersMigrate)
            do {
                try writer.namingObstacles { try migrator.migrate(writer.queue) }
            } catch {
                // SQLite has tried for 10 s to begin a transaction, and each of the following reads would last as long.
                if (error as? DatabaseError)?.resultCode == .SQLITE_PROTOCOL { throw error }
                if tries < Self.maximumTries,
                    try on(writer, { db in try companions.contains { try $0.removeObstacle(error, db) } })
                {
                    tries += 1
                    continue
                }
                // Another process applied this migration first (rule S4). The loop continues with what is missing.
                let now = try on(writer, migrator.appliedWhileOthersMigrate)
                guard Self.isOtherProcessesProgress(error, before: applied, after: now) else {
                    let failed = migrator.migrations.first { !now.contains($0) }
                    throw failed.flatMap { (error as? DatabaseError)?.naming(migration: $0, on: file.path) } ?? error
                }
            }
        }
        writer.queue.inDatabase(writer.prepareOutsideTransaction)
    }

    /// How often a migration is retried after a feature has removed an obstacle. There may be several obstacles, and other processes may
    /// create them again.
    private static let maximumTries = 100

    /// Whether the applied migrations show that another process applied some while a migration of this process failed.
    private static func isOtherProcessesProgress(_ error: any Error, before: [String], after: [String]) -> Bool {
        guard let error = error as? DatabaseError, before != after else { return false }
        switch error.resultCode {
        case .SQLITE_CONSTRAINT, .SQLITE_ERROR, .SQLITE_BUSY: return true
        default: return false
        }
    }

    // Rule S2a: The switch to WAL needs EXCLUSIVE, and SQLite keeps PENDING while it waits for readers to end, which keeps out new readers
    // of all programs. So one attempt waits at most 250 ms (the first ones less: from 0.5 ms, doubled), and releases PENDING for as long
    // before the next attempt.

    /// Switches the database to WAL. SQLite does not call the busy handler on every path of this pragma, so this method waits itself
    /// (rule S2a).
    private func switchToWAL(_ db: Database, _ writer: WriterConnection, until deadline: Nanoseconds) throws {
        let began = MonotonicClock.now
        var backoff = Backoff(.microseconds(500), upTo: .milliseconds(250))
        writer.busyHandler.forgetWaits()
        defer { writer.busyHandler.attemptLimit = nil }
        while true {
            let mode: String?
            let pause = backoff.next()
            do {
                // SQLite keeps PENDING while it waits here, which keeps out all new readers.
                writer.busyHandler.attemptLimit = pause
                mode = try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL")
            } catch let error as DatabaseError
                where [.SQLITE_BUSY, .SQLITE_LOCKED].contains(error.resultCode)
            {
                try gate.checkOpen()
                let now = MonotonicClock.now
                guard now < deadline else {
                    let holder = LockHolder.find(databasePath: file.path, seat: writer.seat)
                    throw DatabaseError(
                        resultCode: error.extendedResultCode,
                        message: """
                            \(file.path): cannot be switched to WAL while it is in use: \
                            \(holder.description(waited: now - began))
                            """
                    )
                }
                MonotonicClock.sleep(min(pause, deadline - now))
                continue
            } catch let error as DatabaseError {
                throw error.naming(file.path)
            }
            // The gate may have undone the commit of the switch, of which SQLite has returned the new mode before.
            try gate.checkOpen()
            if mode == "wal" { return }
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: """
                    \(file.path): cannot be switched to WAL, its journal mode stays '\(mode ?? "unknown")'. \
                    A database with a VFS without shared memory, or in a folder that cannot be written, cannot be \
                    shared for writing.
                    """
            )
        }
    }
}

extension WriterConnection {
    /// Whether the WRITE lock is free (rule T12). Must not be called on `queue`.
    var isWriteLockFree: Bool {
        queue.inDatabase { !$0.isInsideTransaction && WalIndex($0)?.isWriteLockFree == true }
    }
}

extension DatabaseError {
    fileprivate var isUnreadable: Bool { resultCode == .SQLITE_NOTADB || resultCode == .SQLITE_CORRUPT }
}
