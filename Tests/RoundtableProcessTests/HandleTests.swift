import Foundation
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// A program that writes by a raw handle, among programs that use `SharedDatabase` (rules U).
    @Suite struct RawHandles {
        typealias Fate = FrozenHolders.Fate

        /// Turns are shared equally with it, within the bounds of `Fairness.sharesAreEqual` (rule U1).
        ///
        /// A slice is of time: all transactions take equally long.
        @Test(.long(), .timeLimit(.minutes(1)))
        func sharesAreEqual() throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let peers = try fleet.spawnOpen(7)
                let program = try fleet.spawnRaw("raw")
                for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 5, transaction: 0.5))) }
                try program.send("loop 5 0.5")
                let reports = try peers.map { try $0.report() }
                let own = try program.loopReport()
                for (peer, report) in zip(peers, reports) { report.expectNoErrors(peer) }
                let commits = reports.map(\.commits) + [own.commits]
                let waits = reports.map { Array($0.longestWaits.prefix(3)) } + [own.longestWaits]
                let fairness = jainIndex(commits)
                let longest = waits.map { $0[0] }.max() ?? 0
                let third = waits.map { $0[2] }.max() ?? 0
                print("7 and a raw handle: Jain \(fairness), longest waits \(longest), \(third) ms; \(commits)")
                #expect(fairness >= 0.99, "\(commits)")
                trial.expect("longest wait", longest, atMost: 100)
                trial.expect("third longest wait", third, atMost: 50)
                let ledger = try Ledger(of: fleet.database)
                ledger.expectEverything(acknowledgedBy: peers)
                program.expectEverything(in: ledger)
            }
        }

        /// Frozen or killed in its turn, it delays the others by their patience, once (rules T8, T9).
        @Test(.timeLimit(.minutes(1)), arguments: Fate.allCases)
        func turnWithoutTransaction(fate: Fate) throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let others = try fleet.spawnOpen(3)
                let program = try fleet.spawnRaw("raw")
                #expect(try program.call("hold turn") == "held")
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 30))) }
                switch fate {
                case .stopped: try program.process.stop()
                case .killed: try program.process.killAndReap()
                }
                try fleet.waitForProgress(of: others, commits: 200)
                let reports = try others.map { try $0.stopLoop() }
                for (peer, report) in zip(others, reports) { report.expectNoErrors(peer) }
                let waits = reports.map { Array($0.longestWaits.prefix(3)) }
                print("raw handle \(fate): waits \(waits) ms")
                for wait in waits {
                    trial.expect("longest wait", wait[0], atMost: 150)
                    trial.expect("second longest wait, delayed more than once", wait[1], atMost: 50)
                }
                // The delay was there at all: one participant had to step over the program.
                #expect(waits.contains { $0[0] >= (fate == .stopped ? 50 : 1) })
                if fate == .stopped {
                    program.process.resume()
                    #expect(try program.call("") == "released")
                    #expect(try program.call("write") == "written")
                }
                let ledger = try Ledger(of: fleet.database)
                ledger.expectEverything(acknowledgedBy: fleet.peers)
                program.expectEverything(in: ledger)
            }
        }

        /// A program that has lost `-wal` and `-shm` leaves alone what is at their names when it closes, although it closes last
        /// (rule W12d).
        @Test(.timeLimit(.minutes(1))) func theFilesAreLostAndItCloses() throws {
            try PeerFleet.run { fleet in
                try fleet.spawnOpen("first").call(.close)
                let program = try fleet.spawnRaw("raw")
                #expect(try program.call("write") == "written")
                try fleet.expectNothingLost { try program.call("close") }
            }
        }

        /// Frozen inside a transaction, it is named by the waiters, and they continue when it resumes or dies (rules T8, T11, G1).
        @Test(.timeLimit(.minutes(1)), arguments: Fate.allCases)
        func turnWithTransaction(fate: Fate) throws {
            try PeerFleet.runTimed { fleet, trial in
                let other = try fleet.spawnOpen("other", options: PeerOptions(busyTimeout: 600))
                let patient = try fleet.spawnOpen("patient", options: PeerOptions(busyTimeout: 20_000))
                let program = try fleet.spawnRaw("raw")
                #expect(try program.call("hold transaction") == "held")
                try program.process.stop()
                try patient.send(.write(rows: 1))
                let reply = try other.attempt(.write(rows: 1))
                let message = reply.message ?? ""
                #expect(reply.outcome == .failed && (reply.code ?? 0) & 0xFF == 5, "not SQLITE_BUSY: \(message)")
                #expect(message.contains("'raw' (pid \(program.process.pid)) has been writing for"), "\(message)")
                #expect(message.contains("it is stopped (SIGSTOP)"), "\(message)")
                let resumed = ContinuousClock.now
                switch fate {
                case .stopped:
                    program.process.resume()
                    #expect(try program.call("") == "released")
                case .killed:
                    try program.process.killAndReap()
                }
                #expect(try patient.reply().outcome == .done)
                trial.expect("after the raw handle", (ContinuousClock.now - resumed) / .milliseconds(1), atMost: 150)
                try other.call(.write(rows: 1))
                let ledger = try Ledger(of: fleet.database)
                ledger.expectEverything(acknowledgedBy: fleet.peers)
                program.expectEverything(in: ledger)
            }
        }

        /// `kill -9` at any moment loses nothing that it acknowledged, and stops no other process. Each observer ends up with the last state.
        @Test(.timeLimit(.minutes(1)))
        func killedAtRandom() throws {
            var random = SeededGenerator()
            try PeerFleet.run { fleet in
                let others = try fleet.spawnOpen(3)
                let observer = try fleet.spawnObserver("observer")
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                var dead: [RawPeer] = []
                for round in 1...(isLongRun ? 100 : 15) {
                    let program = try fleet.spawnRaw("raw-\(round)")
                    try program.send("loop 60 0")
                    try eventually("the raw handle commits") { program.acknowledged >= 1 }
                    usleep(.random(in: 0...30_000, using: &random))
                    try program.process.killAndReap()
                    dead.append(program)
                    try fleet.waitForProgress(of: others)
                }
                for peer in others { try peer.stopLoop().expectNoErrors(peer) }
                let ledger = try Ledger(of: fleet.database)
                ledger.expectEverything(acknowledgedBy: others)
                for program in dead { program.expectEverything(in: ledger, isDead: true) }
                try observer.waitForValue(fleet.authors().count)
            }
        }

        /// Observers in other processes are notified of its commits soon, by its name and with the tables that it names. For commits that
        /// name none, they learn that anything may have changed (rules U4, U5).
        @Test(.timeLimit(.minutes(1)))
        func observersAreNotified() throws {
            try PeerFleet.runTimed { fleet, trial in
                let observer = try fleet.spawnObserver("observer")
                let program = try fleet.spawnRaw("raw")
                var delays: [Double] = []
                for row in 1...50 {
                    let requested = MonotonicClock.now
                    #expect(try program.call("write") == "written")
                    let receivedAt = try observer.waitForValue(row)
                    try observer.waitForChange(row)
                    delays.append(Double(receivedAt.subtractingSaturating(requested)) / 1e6)
                }
                let changes = try observer.changes
                #expect(changes.count == 50)
                for change in changes {
                    #expect(change.author == "raw" && change.pid == program.process.pid && !change.isOwn, "\(change)")
                    #expect(change.detail == "commit" && change.tables == ["entry"], "\(change)")
                }
                delays.sort()
                print("commit of a raw handle to a fresh value: median \(delays[25]), longest \(delays[49]) ms")
                trial.expect("median delay", delays[25], atMost: 20)
                #expect(try program.call("write anything") == "written")
                try observer.waitForChange(51)
                let last = try observer.changes.last
                #expect(last?.author == "raw" && last?.tables == ["*"], "\(last as Any)")
            }
        }

        /// A commit whose publisher dies before it has announced it is reported as "anything may have changed" (rules R4, R5).
        @Test(.timeLimit(.minutes(1)))
        func deathBeforeAnnouncing() throws {
            try PeerFleet.run { fleet in
                let observer = try fleet.spawnObserver("observer")
                let program = try fleet.spawnRaw("raw")
                try program.send("commit-and-die")
                #expect(try program.process.waitForExit() == .status(3))
                try observer.waitForChange(1)
                try observer.waitForValue(1)
                let change = try #require(try observer.changes.last)
                #expect(change.detail == "unrecorded" && change.tables == ["*"], "\(change)")
                program.expectEverything(in: try Ledger(of: fleet.database))
            }
        }

        /// What the guide shows in C is C, and what it calls is in SQLite's header.
        @Test(.enabled(if: hasCompiler, "no C compiler"))
        func theGuidesExampleCompiles() throws {
            let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent()
            let guide = try String(
                contentsOf: package.appendingPathComponent("docs/guides/OtherLanguagesAndLibraries.md"),
                encoding: .utf8
            )
            let example = try #require(guide.components(separatedBy: "```c\n").dropFirst().first)
            try PeerFleet.run { fleet in
                let source = fleet.folder.appendingPathComponent("example.c")
                try example.components(separatedBy: "```")[0].write(to: source, atomically: true, encoding: .utf8)
                let compiler = try fleet.spawn(
                    program: Self.compiler,
                    arguments: ["-std=c11", "-Wall", "-Werror", "-fsyntax-only", source.path]
                )
                #expect(try compiler.waitForExit(within: .seconds(30)) == .status(0), "\(compiler.errorText)")
            }
        }

        private static let compiler = URL(fileURLWithPath: "/usr/bin/cc")
        private static var hasCompiler: Bool { FileManager.default.isExecutableFile(atPath: compiler.path) }
    }
}
