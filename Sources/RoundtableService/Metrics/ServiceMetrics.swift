#if Service
    import CoreMetrics
    import Foundation
    import GRDB
    import Roundtable
    import RoundtableCore
    import RoundtableKernel
    import Synchronization

    /// The metrics of a database. Names and attributes follow OpenTelemetry's conventions for databases where they have one
    /// (<https://opentelemetry.io/docs/specs/semconv/db/database-metrics/>). No attribute has an unbounded number of values.
    final class ServiceMetrics: Sendable {
        let database: SharedDatabase
        private let interval: Duration
        private let dimensions: [(String, String)]
        private let factory: any MetricsFactory
        private let reads: OperationTimers
        private let writes: OperationTimers
        private let waits: DurationTimer
        private let commits: Counter
        private let events: Mutex<[String: Counter]> = Mutex([:])

        init(_ database: SharedDatabase, _ factory: any MetricsFactory, every interval: Duration) {
            self.database = database
            self.factory = factory
            self.interval = interval
            dimensions = Self.dimensions(path: database.path)
            reads = OperationTimers("read", dimensions, factory)
            writes = OperationTimers("write", dimensions, factory)
            waits = DurationTimer("roundtable.turn.wait.duration", dimensions, factory)
            commits = Counter(label: "roundtable.commits", dimensions: dimensions, factory: factory)
        }

        static func dimensions(path: String) -> [(String, String)] {
            [("db.system.name", "sqlite"), ("db.namespace", name(of: path))]
        }

        private static func name(of path: String) -> String { URL(fileURLWithPath: path).lastPathComponent }

        func begin() { database.metering.set(self) }

        func end() { database.metering.set(nil) }

        /// Sets the gauges at intervals, until the task is cancelled.
        func run() async {
            while !Task.isCancelled {
                // This reads files and shared memory, which may be slow.
                await offThread { self.setGauges() }
                do { try await Task.sleep(for: interval) } catch { return }
            }
        }

        func count(_ event: SharedDatabase.Event) {
            let key = "\(event.category) \(event.severity.rawValue)"
            let counter = events.withLock { events in
                if let counter = events[key] { return counter }
                let counter = Counter(
                    label: "roundtable.events",
                    dimensions: dimensions + [
                        ("roundtable.event", event.category), ("roundtable.severity", event.severity.rawValue),
                    ],
                    factory: factory
                )
                events[key] = counter
                return counter
            }
            counter.increment()
        }

        // MARK: Gauges

        func setGauges() {
            let readers = database.readerCounts
            // Unique in the program, as the conventions ask for.
            let pool = [("db.client.connection.pool.name", "\(Self.name(of: database.path)):readers")]
            set("db.client.connection.count", readers.idle, pool + [("db.client.connection.state", "idle")])
            set("db.client.connection.count", readers.used, pool + [("db.client.connection.state", "used")])
            set("db.client.connection.max", readers.maximum, pool)
            set("db.client.connection.pending_requests", readers.waiting, pool)

            if let health = try? database.walHealth() {
                set("roundtable.wal.frames", health.committedFrames)
                set("roundtable.wal.uncopied_frames", health.committedFrames - health.backfilledFrames)
                set("roundtable.wal.held_frames", health.pins.first?.heldFrames ?? 0)
                set("roundtable.wal.size", health.size)
                if let counters = health.counters {
                    func checkpoints(_ outcome: String, _ count: Int) {
                        set("roundtable.checkpoints", count, [("roundtable.outcome", outcome)])
                    }
                    checkpoints("copied", counters.checkpoints)
                    checkpoints("restarted", counters.walRestarts)
                    checkpoints("held_up", counters.heldUp)
                    checkpoints("by_writer", counters.byWriters)
                }
            }

            let participants = database.participants
            for liveness in ["alive", "stopped", "dead", "unknown"] {
                let count = participants.count { $0.liveness.rawValue == liveness }
                set("roundtable.participants", count, [("roundtable.liveness", liveness)])
            }
            set("roundtable.participants.waiting", participants.count { $0.waiting != nil })
            set("roundtable.coordinated", database.uncoordinatedReason == nil ? 1 : 0)
            if let turns = database.turns {
                set("roundtable.turns", Int(clamping: turns.taken))
                let gauge = Gauge(label: "roundtable.turn.wait.longest", dimensions: dimensions, factory: factory)
                gauge.record(Double(turns.longestWait) / 1e9)
            }
        }

        private func set(_ label: String, _ value: Int, _ more: [(String, String)] = []) {
            Gauge(label: label, dimensions: dimensions + more, factory: factory).record(value)
        }
    }

    extension ServiceMetrics: AccessMeter {
        func didRead(_ duration: Nanoseconds, _ failure: (any Error)?) { reads.record(duration, failure) }

        func didWrite(_ duration: WriteDuration, _ failure: (any Error)?) {
            writes.record(duration.total, failure)
            if let waited = duration.waited { waits.recordNanoseconds(Int64(clamping: waited)) }
            if duration.hasCommitted { commits.increment() }
        }
    }

    /// The timers of one operation: one for successes, and one for each kind of error.
    private struct OperationTimers: Sendable {
        private let successes: DurationTimer
        private let failures: [Int32: DurationTimer]
        private let others: DurationTimer

        init(_ operation: String, _ dimensions: [(String, String)], _ factory: any MetricsFactory) {
            let dimensions = dimensions + [("db.operation.name", operation)]
            func timer(_ more: [(String, String)] = []) -> DurationTimer {
                DurationTimer("db.client.operation.duration", dimensions + more, factory)
            }
            successes = timer()
            var failures: [Int32: DurationTimer] = [:]
            for (code, name) in ErrorType.codes {
                failures[code.rawValue] = timer([("error.type", name), ("db.response.status_code", "\(code.rawValue)")])
            }
            self.failures = failures
            others = timer([("error.type", ErrorType.other)])
        }

        func record(_ duration: Nanoseconds, _ failure: (any Error)?) {
            guard let failure else { return successes.recordNanoseconds(Int64(clamping: duration)) }
            let code = (failure as? DatabaseError)?.resultCode.rawValue
            let timer = code.flatMap { failures[$0] } ?? others
            timer.recordNanoseconds(Int64(clamping: duration))
        }
    }
#endif
