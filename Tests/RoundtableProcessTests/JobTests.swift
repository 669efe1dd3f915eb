import Foundation
import GRDB
import Roundtable
import RoundtableJobs
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

@testable import roundtable_torture

extension ProcessTests {
    /// Workers of `RoundtableJobs` in several processes.
    @Suite struct Jobs {
        private static let shell = URL(fileURLWithPath: "/usr/bin/sqlite3")
        private static var hasShell: Bool { FileManager.default.isExecutableFile(atPath: shell.path) }

        /// A worker process, which prints what its handlers do.
        private final class Worker {
            let process: ChildProcess
            private let session: ProgramSession

            init(_ fleet: PeerFleet, lease: Int) throws {
                process = try fleet.spawn(
                    program: PeerFleet.program(named: "roundtable-torture"),
                    arguments: ["jobs-role", "--path", fleet.database.path, "--lease", "\(lease)"]
                )
                session = ProgramSession(process)
                try expect("ready")
            }

            func expect(_ line: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
                #expect(try session.receive() == line, sourceLocation: sourceLocation)
            }

            func receive() throws -> String { try session.receive() }

            /// The next lines, of handlers that run at the same time.
            func receive(_ count: Int) throws -> [String] {
                try (0..<count).map { _ in try session.receive() }.sorted()
            }
        }

        private func open(_ fleet: PeerFleet) throws -> SharedDatabase {
            try SharedDatabase.open(at: fleet.database, schema: JobsWorld.schema, as: "test")
        }

        private func add(_ number: Int, gate: URL? = nil, _ db: SharedDatabase) throws {
            try db.write { db in
                _ = try JobsWorld.queue().add(CampaignJob(number: number, gate: gate?.path), in: db)
            }
        }

        private func effects(_ db: SharedDatabase) throws -> [[Int]] {
            try db.read { db in
                try Row.fetchAll(db, sql: "SELECT number, attempt FROM effect ORDER BY number").map { [$0[0], $0[1]] }
            }
        }

        /// The jobs of a process that was killed are attempted by another one, which sleeps, long before the lease ends (rules A7, A7a).
        @Test(.timeLimit(.minutes(1)))
        func aKilledWorker() throws {
            try PeerFleet.run { fleet in
                let db = try open(fleet)
                defer { try? db.close() }
                let gate = fleet.folder.appendingPathComponent("gate")
                for number in 1...2 { try add(number, gate: gate, db) }
                let first = try Worker(fleet, lease: 600_000)
                #expect(try first.receive(2) == ["began 1 1", "began 2 1"])
                // The first one has no free handler. When the second one has done this job, it sleeps.
                let second = try Worker(fleet, lease: 600_000)
                try add(3, db)
                try second.expect("began 3 1")
                try second.expect("completed 3 1")
                try first.process.killAndReap()
                #expect(try second.receive(2) == ["began 1 2", "began 2 2"])
                try Data().write(to: gate)
                #expect(try second.receive(2) == ["completed 1 2", "completed 2 2"])
                #expect(try effects(db) == [[1, 2], [2, 2], [3, 1]])
                let record = try db.read { try JobsWorld.queue().job(1, in: $0) }
                #expect(record?.failures == 1)
            }
        }

        /// A worker that is frozen beyond its lease loses its job, and cannot complete it when it wakes up: its rows are rolled back
        /// (rules A5, A7b).
        @Test(.timeLimit(.minutes(1)))
        func aFrozenWorker() throws {
            try PeerFleet.run { fleet in
                let db = try open(fleet)
                defer { try? db.close() }
                let gate = fleet.folder.appendingPathComponent("gate")
                try add(1, gate: gate, db)
                let first = try Worker(fleet, lease: 300)
                try first.expect("began 1 1")
                try first.process.stop()
                // Only the lease of the first one is to end, however rarely the second one gets to run.
                let second = try Worker(fleet, lease: 60_000)
                try second.expect("began 1 2")
                try Data().write(to: gate)
                try second.expect("completed 1 2")
                first.process.resume()
                let line = try first.receive()
                #expect(line.hasPrefix("failed 1 1: job 1 of 'campaign': attempt 1 has lost it: "), "\(line)")
                #expect(try effects(db) == [[1, 2]])
                // It continues.
                try second.process.killAndReap()
                try add(2, db)
                try first.expect("began 2 1")
                try first.expect("completed 2 1")
            }
        }

        /// The `sqlite3` shell adds a job, and a sleeping worker begins with it (rules A1, A11).
        @Test(.timeLimit(.minutes(1)), .enabled(if: hasShell, "/usr/bin/sqlite3 is not installed"))
        func theShellAddsAJob() throws {
            try PeerFleet.run { fleet in
                let db = try open(fleet)
                defer { try? db.close() }
                let worker = try Worker(fleet, lease: 60_000)
                for number in 1...3 {
                    let sql =
                        "INSERT INTO roundtable_job (queue, payload) VALUES ('campaign', '{\"number\":\(number)}')"
                    let shell = try fleet.spawn(program: Self.shell, arguments: ["-bail", fleet.database.path, sql])
                    #expect(try shell.waitForExit(within: .seconds(20)) == .status(0), "\(shell.errorText)")
                    try worker.expect("began \(number) 1")
                    try worker.expect("completed \(number) 1")
                }
                #expect(try effects(db) == [[1, 1], [2, 1], [3, 1]])
            }
        }

        /// Workers that are killed and frozen at random moments do each job once (rules A4 to A8).
        @Test(.long(), .timeLimit(.minutes(5)))
        func campaign() throws {
            let jobs = isLongRun ? 50_000 : 12_000
            let (exit, output) = try run(["--jobs", "\(jobs)", "--processes", "4"])
            #expect(exit == .status(0), "\(output)")
            #expect(output.contains("no job lost or doubled"), "\(output)")
            // Otherwise, the faults hit nothing.
            #expect(!output.contains("\n0 kills") && !output.contains(" 0 attempts beyond the first"), "\(output)")
        }

        /// Jobs that arrive one by one, with handlers of up to 2 s, begin soon: workers that sleep are woken, also after a long handler, and
        /// beside killed and frozen ones (rules A7a, A11). Without kills too, because each lost worker wakes the others.
        @Test(
            .long(oneIn: 32),
            .timeLimit(.minutes(5)),
            arguments: [["--kills", "0", "--processes", "4"], ["--processes", "8"]]
        )
        func campaignWithLongHandlers(_ options: [String]) throws {
            let jobs = isLongRun ? 2_000 : 120
            let (exit, output) = try run(
                ["--jobs", "\(jobs)", "--handlers", "1", "--longest", "2000"] + options
            )
            #expect(exit == .status(0), "\(output)")
            #expect(output.contains("no job lost or doubled"), "\(output)")
            #expect(output.contains("; waited "), "\(output)")
        }

        /// A campaign whose workers have a defect finds it.
        @Test(
            .long(oneIn: 32),
            .timeLimit(.minutes(5)),
            arguments: [
                (JobsDefect.effectsApart, "doubled: "), (.noToken, "doubled: "), (.forgets, "lost: "),
            ]
        )
        func defect(_ defect: JobsDefect, finding: String) throws {
            let (exit, output) = try run(["--jobs", "20000", "--processes", "4", "--defect", defect.rawValue])
            #expect(exit == .status(1), "\(output)")
            #expect(output.contains("PROBLEM: \(finding)"), "\(output)")
        }

        private func run(_ arguments: [String]) throws -> (ProgramExit, String) {
            var random = SeededGenerator()
            return try PeerFleet.run { fleet in
                let program = try PeerFleet.program(named: "roundtable-torture")
                let campaign = try fleet.spawn(
                    program: program,
                    arguments: ["jobs", "--seed", "\(random.next())"] + arguments
                )
                let session = ProgramSession(campaign)
                var lines: [String] = []
                while let line = try? session.receive(within: .seconds(240)) { lines.append(line) }
                let exit = try campaign.waitForExit(within: .seconds(20))
                return (exit, (lines + [campaign.errorText]).joined(separator: "\n"))
            }
        }
    }
}
