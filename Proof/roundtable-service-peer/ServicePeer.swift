#if Service
    import CoreMetrics
    import Foundation
    import GRDB
    import Logging
    import Roundtable
    import RoundtableCore
    import RoundtableJobs
    import RoundtableService
    import ServiceLifecycle
    import Synchronization
    import UnixSignals

    /// A server as a service group runs it, which obeys a test: `roundtable-service-peer PATH AUTHOR GRACE_MS [WORD …]`. It reads
    /// commands from standard input, and writes answers to standard output, one a line. The words are `jobs` (it has workers), `http` (it
    /// serves its metrics), `parks` (a suspension closes its connections), `copies` (its first checkpoint stops before the first page), and `reversed` (the database is
    /// the last service of the group).
    @main enum ServicePeer {
        static let jobs = JobQueue("peer", of: String.self, lease: .seconds(600))

        static func main() async throws {
            let arguments = CommandLine.arguments
            guard arguments.count >= 4, let grace = Int(arguments[3]) else {
                fatalError("PATH AUTHOR GRACE_MS [jobs] [http] [parks] [copies] [reversed]")
            }
            // A scraper may close its connection before it has the answer.
            signal(SIGPIPE, SIG_IGN)
            let metrics = PrometheusText()
            MetricsSystem.bootstrap(metrics)
            var logger = Logger(label: arguments[2]) { StreamLogHandler.standardError(label: $0) }
            logger.logLevel = .info
            var migrator = DatabaseMigrator()
            migrator.registerMigration("v1") { db in
                try db.execute(sql: "CREATE TABLE entry (name TEXT NOT NULL)")
                try db.createJobTables()
            }
            if arguments.contains("copies") { CopyingCheckpoint.hold(until: Commands.released) }
            var options = SharedDatabase.Options()
            if arguments.contains("parks") { options.suspensionPolicy = .everything }
            let db = try await SharedDatabase.open(
                at: URL(fileURLWithPath: arguments[1]),
                schema: SharedSchema(migrator),
                as: arguments[2],
                options: options
            )
            if arguments.contains("http") {
                let endpoint = try MetricsEndpoint()
                endpoint.serve { metrics.text }
                say("port \(endpoint.port)")
            }
            let service = SharedDatabaseService(
                db,
                logger: logger,
                grace: .milliseconds(grace),
                metricsInterval: .milliseconds(20)
            )
            var services: [any Service] = [service, Commands(db: db, metrics: metrics)]
            if arguments.contains("jobs") {
                let worker = JobWorkerService(
                    jobs,
                    in: db,
                    workers: 2,
                    logger: logger,
                    grace: .milliseconds(grace),
                    cancelGrace: .milliseconds(50)
                ) { job in
                    say("began \(job.payload)")
                    if job.payload == "holds" { return try await db.write { _ in Commands.released.block() } }
                    // A handler that ignores the cancellation of its task.
                    await withTaskCancellationHandler {
                        await Task { await Commands.released.wait() }.value
                    } onCancel: {
                        say("cancelled \(job.payload)")
                    }
                    try await job.complete { db in
                        try db.execute(sql: "INSERT INTO entry VALUES (?)", arguments: [job.payload])
                    }
                }
                services.append(worker)
            }
            if arguments.contains("reversed") { services.reverse() }
            let group = ServiceGroup(
                services: services,
                gracefulShutdownSignals: [.sigterm],
                cancellationSignals: [.sigint],
                logger: logger
            )
            do {
                try await group.run()
            } catch is CancellationError {
                // SIGINT cancels the group.
            } catch {
                logger.error("\(error)")
                exit(1)
            }
            // What was refused at the shutdown is said, too.
            for command in Commands.all.withLock({ $0 }) { await command.value }
            say("ended")
        }

        /// Writes a line in one call.
        static func say(_ line: String) {
            FileHandle.standardOutput.write(Data((line.replacingOccurrences(of: "\n", with: " ") + "\n").utf8))
        }
    }

    /// Obeys the test, also during the shutdown.
    struct Commands: Service {
        let db: SharedDatabase
        let metrics: PrometheusText
        static let released = Moment()
        /// All commands, also those that have ended.
        static let all = Mutex<[Task<Void, Never>]>([])

        func run() async throws {
            Thread.detachNewThread {
                while let line = readLine() {
                    let words = line.split(separator: " ").map(String.init)
                    Self.all.withLock { $0.append(Task { await obey(words) }) }
                }
            }
            ServicePeer.say("ready")
            try? await gracefulShutdown()
            ServicePeer.say("shutting down")
        }

        private func obey(_ words: [String]) async {
            let name = words.count > 1 ? words[1] : ""
            do {
                switch words[0] {
                case "write":
                    try await db.write { try $0.execute(sql: "INSERT INTO entry VALUES (?)", arguments: [name]) }
                    ServicePeer.say("wrote \(name)")
                case "hold":
                    try await db.write { db in
                        try db.execute(sql: "INSERT INTO entry VALUES (?)", arguments: [name])
                        ServicePeer.say("holding \(name)")
                        Self.released.block()
                    }
                    ServicePeer.say("wrote \(name)")
                case "read":
                    let count = try await db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM entry") }
                    ServicePeer.say("read \(count ?? 0)")
                case "add":
                    _ = try await db.write { try ServicePeer.jobs.add(name, in: $0) }
                    ServicePeer.say("added \(name)")
                case "fail":
                    try await db.write { try $0.execute(sql: "INSERT INTO entry VALUES (NULL)") }
                case "hold-read":
                    try await db.read { db in
                        _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM entry")
                        ServicePeer.say("reading \(name)")
                        Self.released.block()
                    }
                    ServicePeer.say("has read \(name)")
                case "checkpoint":
                    ServicePeer.say("checkpointing")
                    let mode: Database.CheckpointMode = name == "passive" ? .passive : .truncate
                    let result = try await db.checkpoint(mode, waitingForReaders: .seconds(3_600))
                    ServicePeer.say("checkpointed \(result)")
                case "measure":
                    let lines = try await Task.detached {
                        try MeteringCost.measure(db, rounds: Int(name) ?? 15, accesses: 2_000)
                    }.value
                    for line in lines { ServicePeer.say("measured \(line)") }
                    ServicePeer.say("# EOF")
                case "release": Self.released.come()
                case "suspend":
                    let suspension = await db.suspend(deadline: .now + .milliseconds(Int(name) ?? 5_000))
                    ServicePeer.say("suspended \(suspension.isReleased)")
                case "health":
                    let limit = Duration.milliseconds(Int(name) ?? 5_000)
                    ServicePeer.say("health \(await db.health(within: .seconds(5), writeLimit: limit).json)")
                case "report":
                    db.reporter.report(CoordinationEvent.restored)
                    db.reporter.report(CoordinationEvent.unavailable(reason: "a test"))
                    db.reporter.report(ObservationEvent.interrupted(CancellationError()))
                    ServicePeer.say("reported")
                case "metrics":
                    for line in metrics.text.split(separator: "\n") { ServicePeer.say(String(line)) }
                    ServicePeer.say("# EOF")
                default: ServicePeer.say("unknown \(words[0])")
                }
            } catch {
                ServicePeer.say("refused \(name): \(error)")
            }
        }
    }
#else
    @main enum ServicePeer {
        static func main() { fatalError("built without the trait 'Service': swift build --traits Service") }
    }
#endif
