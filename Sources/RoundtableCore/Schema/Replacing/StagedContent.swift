import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// A private copy of the content that is to replace that of a database (rule S15). It is a temporary database of SQLite, which has no
/// name and ends with this process. What opening would do to the source is done to the copy, before anybody can read it.
final class StagedContent: @unchecked Sendable {
    // @unchecked: `companions` and `schemaVersion` are confined to the queue.
    let source: String
    let queue: DatabaseQueue
    private let companions: [any WriteCompanion]
    private let schemaVersion = ReusedQuery("PRAGMA main.schema_version")
    let cancellation = WaitCancellation()
    private let progress: @Sendable (SharedDatabase.ReplacementProgress) -> Void

    /// How many pages are copied between two looks whether to go on.
    static let pagesPerStep: CInt = 256

    /// - throws: ``ContentReplacementError``.
    init(
        of url: URL,
        for database: SharedDatabase,
        progress: @escaping @Sendable (SharedDatabase.ReplacementProgress) -> Void
    ) throws {
        guard url.isFileURL else { throw SharedDatabaseError.notAFileURL(url) }
        let source = System.resolvedPath(url.path)
        try Self.check(source, against: database)
        self.source = source
        self.progress = progress
        let companions = database.features.compactMap { $0.writeCompanion() }
        for companion in companions { companion.participantDidJoin(as: database.author) }
        self.companions = companions
        var configuration = database.options.connectionConfiguration(readonly: false)
        configuration.prepareDatabase { db in for companion in companions { try companion.install(in: db) } }
        queue = try Self.namingTemporaryFolder(source) {
            try UnsharedDatabase.temporary(configuration: configuration)
        }
    }

    private static func check(_ source: String, against database: SharedDatabase) throws {
        func refuse(_ reason: String) -> ContentReplacementError { .notADatabase(source: source, reason: reason) }
        guard let status = try System.status(ofFileAt: source) else { throw refuse(Onlooker.noSuchFile) }
        guard status.isRegularFile else { throw refuse("is not a regular file") }
        if FileIdentity(status) == (try System.identity(ofFileAt: database.path)) {
            throw ContentReplacementError.sameFile(path: database.path, source: source)
        }
        if database.options.keying != nil { throw ContentReplacementError.encrypted(path: database.path) }
        do {
            guard let header = try DatabaseHeader(databasePath: source) else { throw refuse("is empty") }
            if header.isEncrypted { throw ContentReplacementError.encrypted(path: source) }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_NOTADB {
            throw refuse("is not a SQLite database, or is encrypted")
        }
    }

    /// Interrupts what runs. May be called from any thread.
    func cancel() {
        cancellation.cancel()
        queue.interrupt()
    }

    func checkCancellation() throws {
        if cancellation.isCancelled { throw CancellationError() }
    }

    func report(_ phase: SharedDatabase.ReplacementProgress.Phase, _ completed: Int, of total: Int) {
        progress(SharedDatabase.ReplacementProgress(phase: phase, completedPages: completed, totalPages: total))
    }

    /// Copies the source, checks the copy, and brings it up to date. Must not be called within an access to the database.
    ///
    /// - throws: ``ContentReplacementError``; ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``; `DatabaseError`;
    ///   `CancellationError`.
    func prepare(_ database: SharedDatabase) throws {
        do {
            try Self.namingTemporaryFolder(source) {
                try copySource(waitingUpTo: database.options.busyTimeout)
                try checkIntegrity()
                try migrate(database)
                try queue.write { db in
                    for companion in companions { companion.prepare(db, schemaVersion: schemaVersion) }
                    for companion in database.schemaCompanions where try !companion.isCurrent(db) {
                        try companion.upgrade(db)
                    }
                    for feature in database.features { try feature.contentWillReplaceOther(db) }
                }
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT {
            try checkCancellation()
            throw error
        }
        try checkCancellation()
    }

    private func copySource(waitingUpTo timeout: Duration) throws {
        var configuration = Configuration()
        configuration.readonly = try !mayCleanUp
        let handler = TimedBusyHandler(limit: timeout.nanoseconds)
        configuration.busyMode = .callback { handler.next(tries: $0) }
        do {
            let original = try UnsharedDatabase.openQueue(
                at: URL(fileURLWithPath: source),
                configuration: configuration
            )
            defer { try? original.close() }
            // Within one read, so that the copy is of one moment, whoever writes the source.
            try original.read { from in
                try queue.writeWithoutTransaction { to in
                    try from.backup(to: to, pagesPerStep: Self.pagesPerStep) { step in
                        try self.checkCancellation()
                        self.report(.copying, step.completedPageCount, of: step.totalPageCount)
                    }
                }
            }
        } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_NOTADB:
                throw ContentReplacementError.notADatabase(source: source, reason: "is not a SQLite database")
            case .SQLITE_CORRUPT: throw damaged(error.message ?? "SQLite cannot read it")
            default: throw error.naming(source)
            }
        }
    }

    /// Whether reading the source creates companion files that SQLite removes again if the connection may write. The last connection to close
    /// removes them, unless it is read-only. There is no WAL that it would copy into the source.
    private var mayCleanUp: Bool {
        get throws {
            for ending in ["-wal", "-shm"] where try System.status(ofFileAt: source + ending) != nil { return false }
            let folder = (source as NSString).deletingLastPathComponent
            guard System.mayWrite(source), System.mayWrite(folder) else { return false }
            guard try ReadingPlace(databasePath: source) == .usual else { return false }
            return try DatabaseHeader(databasePath: source)?.isWAL == true
        }
    }

    private func damaged(_ finding: String) -> ContentReplacementError { .damaged(source: source, finding: finding) }

    private func checkIntegrity() throws {
        try queue.read { db in
            let pages = try Int.fetchOne(db, sql: "PRAGMA main.page_count") ?? 0
            report(.checking, 0, of: pages)
            do {
                let finding = try String.fetchOne(db, sql: "PRAGMA main.quick_check(1)")
                if let finding, finding != "ok" { throw damaged(finding) }
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
                throw damaged(error.message ?? "SQLite cannot read it")
            }
            report(.checking, pages, of: pages)
        }
    }

    /// Applies the missing migrations, as opening does (rules S4 to S6, E5).
    private func migrate(_ database: SharedDatabase) throws {
        let companions = database.schemaCompanions
        guard let schema = database.writer.watch?.schema, let migrator = schema.migrator else {
            return try queue.read { db in for companion in companions { _ = try companion.isCurrent(db) } }
        }
        let state = try queue.read { db in
            // A program that may not write this content because of its derived tables is refused before it migrates.
            for companion in companions { _ = try companion.isCurrent(db) }
            return try schema.state(db)
        }
        switch state {
        case .current: return
        case .absent: throw ContentReplacementError.otherProgram(source: source)
        case .tooNew(let unknown): throw SharedDatabaseError.schemaTooNew(path: source, unknownMigrations: unknown)
        case .tooOld: break
        }
        try queue.writeWithoutTransaction { db in
            for companion in self.companions { companion.prepare(db, schemaVersion: schemaVersion) }
            for companion in companions { try companion.prepareMigrations(db) }
        }
        while true {
            do {
                return try migrator.migrate(queue)
            } catch {
                try checkCancellation()
                // Each removal makes the derived tables fewer.
                let isRemoved = try queue.writeWithoutTransaction { db in
                    try companions.contains { try $0.removeObstacle(error, db) }
                }
                if !isRemoved { throw error }
            }
        }
    }

    /// The copy is not in the database's folder, so the error of a full disk must not name that.
    private static func namingTemporaryFolder<T>(_ source: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
            throw DatabaseError(
                resultCode: error.extendedResultCode,
                message: """
                    \(source): there is no room for a copy of it in the folder of temporary files. Nothing was changed. Free space there, or \
                    have SQLITE_TMPDIR name a folder that has more
                    """
            )
        }
    }
}
