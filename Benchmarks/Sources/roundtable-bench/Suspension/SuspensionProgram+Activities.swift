#if os(Linux)
    import Foundation
    import GRDB
    import Roundtable
    import Synchronization

    /// What goes on beside the writes, in threads of its own, until the process is killed.
    extension SuspensionProgram {
        func start(_ activity: SuspensionActivity, beside writer: any SuspendedWriter) throws {
            switch (activity, writer) {
            case (.migrations, is SharedDatabaseWriter): loop("migrated", migrateShared)
            case (.migrations, is PoolWriter): loop("migrated", migratePool)
            case (.checkpoints, let writer as SharedDatabaseWriter):
                checkpoint { kind in try writer.database.writeWithoutTransaction { _ = try $0.checkpoint(kind) } }
            case (.checkpoints, let writer as PoolWriter):
                checkpoint { kind in try writer.pool.writeWithoutTransaction { _ = try $0.checkpoint(kind) } }
            case (.opening, is SharedDatabaseWriter):
                loop("opened") { [task] in
                    let writer = try SharedDatabaseWriter(task)
                    _ = try writer.lastSequence()
                    try writer.database.close()
                }
            case (.opening, is PoolWriter):
                loop("opened") { [task] in
                    let pool = try PoolWriter.open(task.databasePath, task)
                    _ = try pool.read(Ledger.lastSequence)
                    try pool.close()
                }
            case (.history, let writer as SharedDatabaseWriter): try consumeHistory(of: writer.database)
            case (.observation, let writer as SharedDatabaseWriter):
                observe(writer.database)
                observeChanges(of: writer.database)
            case (.observation, let writer as PoolWriter): observe(writer.pool)
            default: throw SuspensionFailure("\(task.contestant.label) knows no \(activity.rawValue)")
            }
        }

        /// Repeats it, and tells how often it was done, and how it failed.
        private func loop(_ name: String, _ body: @escaping @Sendable () throws -> Void) {
            Thread.detachNewThread { [self] in
                var meter = ActivityMeter(journal, name)
                while true {
                    do {
                        try body()
                        meter.count()
                    } catch {
                        meter.fail(error)
                        pause()
                    }
                }
            }
        }

        // MARK: Migrations

        private static let migrationCount = 20

        private static let longMigrator: DatabaseMigrator = {
            var migrator = DatabaseMigrator()
            for number in 0..<migrationCount {
                migrator.registerMigration("\(number)") { db in
                    try db.execute(sql: "CREATE TABLE t\(number) (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
                    for row in 0..<50 {
                        try db.execute(sql: "INSERT INTO t\(number) VALUES (?, ?)", arguments: [row, Statements.text])
                    }
                }
            }
            return migrator
        }()

        private var migratedPath: String { task.folder + "/migrated.sqlite" }

        private func removeMigrated() {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: task.folder)) ?? []
            for name in names where name.hasPrefix("migrated.sqlite") { unlink("\(task.folder)/\(name)") }
        }

        /// What an attempt that failed has left is gone on with.
        private func migrateShared() throws {
            let database = try SharedDatabase.open(
                at: URL(fileURLWithPath: migratedPath),
                schema: SharedSchema(Self.longMigrator),
                as: "migrating",
                options: SharedDatabaseWriter.options(task)
            )
            try database.close()
            removeMigrated()
        }

        private func migratePool() throws {
            let pool = try PoolWriter.open(migratedPath, task)
            try Self.longMigrator.migrate(pool)
            try pool.close()
            removeMigrated()
        }

        // MARK: Checkpoints

        private func checkpoint(_ body: @escaping @Sendable (Database.CheckpointMode) throws -> Void) {
            for kind in [Database.CheckpointMode.passive, .full, .restart, .truncate] {
                loop("checkpointed \(kind)") {
                    try body(kind)
                    // Others are to write, too.
                    usleep(500)
                }
            }
        }

        // MARK: History

        private func consumeHistory(of database: SharedDatabase) throws {
            try database.history.enable(for: "ledger")
            loop("consumed") {
                do {
                    try database.history.consume(as: "reader", in: ["ledger"], limit: 200) { _ in }
                } catch HistoryError.startOver(_, let token) {
                    try database.history.restartConsumer("reader", at: token)
                }
                usleep(200)
            }
        }

        // MARK: Observation

        private func observe(_ reader: some DatabaseReader) {
            let meter = Mutex(ActivityMeter(journal, "observed"))
            let last = Mutex(0)
            let cancellable = ValueObservation.tracking { try Int.fetchOne($0, sql: Ledger.last) ?? 0 }
                .start(in: reader, scheduling: .async(onQueue: DispatchQueue(label: "observed"))) { error in
                    meter.withLock { $0.fail(error) }
                } onChange: { value in
                    last.withLock { $0 = value / Ledger.stride }
                    meter.withLock { $0.count() }
                }
            Self.forever.withLock { $0.append(cancellable) }
            reportStalls("value observation") { last.withLock { $0 } }
        }

        private func observeChanges(of database: SharedDatabase) {
            let count = Mutex(0)
            Task.detached { [journal] in
                var meter = ActivityMeter(journal, "told of changes")
                do {
                    for try await _ in database.changes(in: Table("ledger")) {
                        count.withLock { $0 += 1 }
                        meter.count()
                    }
                } catch {
                    meter.fail(error)
                }
            }
            reportStalls("changes(in:)") { count.withLock { $0 } }
        }

        private static let forever = Mutex<[AnyDatabaseCancellable]>([])

        /// Tells when `value` has not moved for so long in which writes were acknowledged.
        private func reportStalls(_ name: String, _ value: @escaping @Sendable () -> Int) {
            Thread.detachNewThread { [self] in
                var (seen, acknowledged) = (value(), SuspensionJournal.acknowledged(task))
                while true {
                    // Time in which the process is frozen counts as well, so it is long.
                    Clock.sleep(until: Clock.now + 3_000_000_000)
                    let (now, written) = (value(), SuspensionJournal.acknowledged(task))
                    if now == seen, written > acknowledged + 10 {
                        var entry = SuspensionJournal.Entry(.activity)
                        entry.text = "stalled: \(name)"
                        journal.append(entry)
                    }
                    (seen, acknowledged) = (now, written)
                }
            }
        }
    }

    /// Tells the journal what an activity does, not too often.
    private struct ActivityMeter {
        private let journal: SuspensionJournal
        private let name: String
        private var number = 0
        private var last: Nanoseconds = 0

        init(_ journal: SuspensionJournal, _ name: String) {
            self.journal = journal
            self.name = name
        }

        mutating func count() {
            number += 1
            guard Clock.now > last + 20_000_000 else { return }
            append(name, number)
            last = Clock.now
            number = 0
        }

        func fail(_ error: any Error) {
            let code = SuspensionProgram.code(of: error).map { "error \($0)" } ?? "\(error)"
            append("not \(name): \(code)", 1)
        }

        private func append(_ text: String, _ number: Int) {
            var entry = SuspensionJournal.Entry(.activity)
            entry.text = text
            entry.count = number
            journal.append(entry)
        }
    }
#endif
