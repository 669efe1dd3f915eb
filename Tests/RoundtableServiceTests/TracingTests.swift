#if Service
    import Foundation
    import GRDB
    import InMemoryTracing
    import Logging
    import Roundtable
    import RoundtableJobs
    import RoundtableService
    import RoundtableTestBasics
    import RoundtableTestSupport
    import ServiceLifecycle
    import Testing
    import Tracing

    /// Writes and jobs as spans. One tracer can be bootstrapped in a process, so each test looks for its own database's spans.
    @Suite struct TracingTests {
        private static let tracer: InMemoryTracer = {
            let tracer = InMemoryTracer()
            InstrumentationSystem.bootstrap(tracer)
            return tracer
        }()

        private let folder: TemporaryFolder
        private let database: SharedDatabase
        private let name = "traced-\(UInt64.random(in: 0 ... .max)).sqlite"
        private let logger = Logger(label: "tracing", factory: { _ in SwiftLogNoOpLogHandler() })

        init() throws {
            _ = Self.tracer
            folder = try TemporaryFolder()
            var migrator = DatabaseMigrator()
            migrator.registerMigration("v1") { db in
                try db.createJobTables()
                try db.execute(sql: "CREATE TABLE item (name TEXT UNIQUE)")
            }
            var options = SharedDatabase.Options()
            options.eventLog = .off
            let url = folder.url.appendingPathComponent(name)
            database = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "server", options: options)
        }

        private func spans(_ operation: String) -> [FinishedInMemorySpan] {
            Self.tracer.finishedSpans.filter { $0.operationName == "\(operation) \(name)" }
        }

        /// Runs `body` while the database's service runs.
        private func serving(tracing: Bool = true, _ body: @Sendable () async throws -> Void) async throws {
            let service = SharedDatabaseService(database, logger: logger, metrics: false, tracing: tracing)
            let running = Task { try await service.run() }
            // The service has begun: a write is traced, or its log is on.
            try await eventually("the service runs") { [database] in
                if !tracing { return true }
                try? database.insert("first \(UInt64.random(in: 0 ... .max))")
                return !spans("write").isEmpty
            }
            try await body()
            running.cancel()
            try await running.value
        }

        @Test(.timeLimit(.minutes(1))) func writes() async throws {
            try await serving {
                let before = spans("write").count
                try await withSpan("request") { request in
                    try await database.write { try $0.execute(sql: "INSERT INTO item VALUES ('a')") }
                    try database.insert("b")
                    // A failure shows its kind and SQLite's code, and no values.
                    await #expect(throws: DatabaseError.self) {
                        try await database.write { try $0.execute(sql: "INSERT INTO item VALUES ('a')") }
                    }
                    let own = spans("write").dropFirst(before)
                    #expect(own.count == 3)
                    let parent = (request as? InMemorySpan)?.context.inMemorySpanContext?.spanID
                    #expect(parent != nil)
                    for span in own {
                        #expect(span.spanContext.parentSpanID == parent)
                        #expect(span.attributes.get("db.system.name") == .string("sqlite"))
                        #expect(span.attributes.get("db.namespace") == .string(name))
                        #expect(span.attributes.get("roundtable.participant") == .string("server"))
                        let waits = spans("wait").filter { $0.spanContext.parentSpanID == span.spanContext.spanID }
                        #expect(waits.count == 1)
                        #expect(
                            waits.allSatisfy {
                                $0.endInstant.nanosecondsSinceEpoch <= span.endInstant.nanosecondsSinceEpoch
                            }
                        )
                    }
                    #expect(own.first?.attributes.get("code.file.path") == .string(#fileID))
                    #expect(own.first?.status == nil)
                    #expect(own.last?.status?.code == .error)
                    #expect(own.last?.attributes.get("error.type") == .string("SQLITE_CONSTRAINT"))
                    #expect(own.last?.attributes.get("db.response.status_code") == .string("19"))
                    #expect(own.last?.errors.isEmpty == true)
                }
            }
        }

        /// The span `wait` of a write has ended when its closure runs, in a blocking write and in the others.
        @Test(.timeLimit(.minutes(1))) func theWaitEndsBeforeTheClosure() async throws {
            try await serving {
                let before = spans("wait").count
                try database.insert("blocking", whileWriting: { #expect(spans("wait").count == before + 1) })
                try await database.write { _ in #expect(spans("wait").count == before + 2) }
                try await database.write(sharesCommit: false) { _ in #expect(spans("wait").count == before + 3) }
            }
        }

        /// The wait for the turn of another participant is in `wait`.
        @Test(.timeLimit(.minutes(1))) func waits() async throws {
            let url = URL(fileURLWithPath: database.path)
            let other = try await SharedDatabase.open(at: url, schema: .unmanaged, as: "other")
            try await serving {
                let (begun, end) = (Shared(false), Shared(false))
                other.asyncWrite { _ in
                    begun.change { $0 = true }
                    end.wait { $0 }
                } completion: { _, _ in
                }
                await onThread { _ = begun.wait { $0 } }
                let before = spans("wait").count
                async let write: Void = database.write { try $0.execute(sql: "INSERT INTO item VALUES ('c')") }
                try await Task.sleep(for: .milliseconds(50))
                end.change { $0 = true }
                try await write
                let wait = try #require(spans("wait").dropFirst(before).first)
                #expect(wait.endInstant.nanosecondsSinceEpoch - wait.startInstant.nanosecondsSinceEpoch >= 40_000_000)
            }
            try other.close()
        }

        /// Without the service, and when it is not wanted.
        @Test(.timeLimit(.minutes(1))) func isOff() async throws {
            try database.insert("before")
            try await serving(tracing: false) { try database.insert("during") }
            #expect(spans("write").isEmpty)
        }

        /// What a handler writes is in the span of its attempt.
        @Test(.timeLimit(.minutes(1))) func jobs() async throws {
            let queue = JobQueue(name, of: Int.self)
            try await serving {
                let id = try #require(try await database.write { try queue.add(7, in: $0) })
                let done = Shared(false)
                let worker = JobWorkerService(queue, in: database, logger: logger, metrics: false) { [database] job in
                    try database.insert("job \(job.payload)")
                    done.change { $0 = true }
                }
                let running = Task { try await worker.run() }
                await onThread { _ = done.wait { $0 } }
                try await eventually("the span has ended") { !spans("job").isEmpty }
                let span = spans("job")[0]
                #expect(span.kind == .consumer && span.status == nil)
                #expect(span.attributes.get("messaging.message.id") == .string("\(id)"))
                #expect(span.attributes.get("roundtable.attempt") == .int64(1))
                #expect(spans("write").contains { $0.spanContext.parentSpanID == span.spanContext.spanID })
                running.cancel()
                _ = await running.result
            }
        }
    }

    extension SharedDatabase {
        fileprivate func insert(_ name: String, whileWriting: () -> Void = {}) throws {
            try write { db in
                whileWriting()
                try db.execute(sql: "INSERT INTO item VALUES (?)", arguments: [name])
            }
        }
    }
#endif
