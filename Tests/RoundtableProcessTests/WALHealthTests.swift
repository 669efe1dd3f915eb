import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// A process that pins the WAL is named, whatever it is and whatever state it is in (rules O2, O3).
    @Suite struct WALHealthTests {
        private static let python = URL(fileURLWithPath: "/usr/bin/python3")
        private static var hasPython: Bool { FileManager.default.isExecutableFile(atPath: python.path) }

        /// What the command-line tool says.
        private func toolPins(_ fleet: PeerFleet) throws -> [WALHealth.Pin] {
            let tool = try PeerFleet.program(named: "roundtable")
            let output = fleet.folder.appendingPathComponent("status.json")
            let process = try fleet.spawn(
                program: URL(fileURLWithPath: "/bin/sh"),
                arguments: [
                    "-c", "exec \"$0\" status --json \"$1\" > \"$2\"", tool.path, fleet.database.path, output.path,
                ]
            )
            #expect(try process.waitForExit(within: .seconds(20)) == .status(0), "\(process.errorText)")
            let decoder = JSONDecoder()
            decoder.dateDecodingStrategy = .iso8601
            return try decoder.decode(DatabaseStatus.self, from: Data(contentsOf: output)).wal?.pins ?? []
        }

        private func health(_ peer: Peer) throws -> WALHealth { try #require(try peer.call(.walHealth).health) }

        /// A peer that freezes in an ordinary read is named by another within a second, with its pid, its state and its line of
        /// code; it is named no more once it is dead.
        ///
        ///     reader            writer
        ///     read begins
        ///     SIGSTOP           commits
        ///                       names the reader
        /// SIGKILL           names no process
        @Test(.timeLimit(.minutes(1)), arguments: [false, true])
        func frozenReaderIsNamed(readOnly: Bool) throws {
            try PeerFleet.runTimed { fleet, trial in
                let writer = try fleet.spawnOpen("app")
                let reader = try fleet.spawn("widget")
                let opening = fleet.opening(reader)
                try reader.call(readOnly ? .openReadOnly(opening, waiting: 0) : .open(opening))
                try writer.call(.write(rows: 1))
                let site = try #require(try reader.call(.holdRead).message)
                try reader.process.stop()
                let stopped = ContinuousClock.now
                try writer.send(.writeLoop(WriteLoad(seconds: 30)))
                try fleet.waitForProgress(of: [writer], commits: 10)
                try writer.stopLoop().expectNoErrors(writer)

                let health = try health(writer)
                let took = (ContinuousClock.now - stopped) / .milliseconds(1)
                trial.expect("the reader is named", took, atMost: 1000)
                for pins in [health.pins, try toolPins(fleet)] {
                    let pin = try #require(pins.first, "no process is named")
                    #expect(pins.count == 1, "\(pins)")
                    #expect(pin.holder.pid == reader.pid && pin.holder.name == "widget" && pin.holder.isParticipant)
                    #expect(pin.holder.liveness == .stopped)
                    #expect(pin.callSite == site)
                    #expect(pin.heldFrames >= 10 && pin.heldFrames <= health.committedFrames)
                    #expect(try #require(pin.age) < .seconds(20))
                }
                #expect(health.description.contains("'widget' (pid \(reader.pid), stopped) holds "))
                // One finding, which is about both.
                let diagnosis = try DatabaseDiagnosis(ofDatabaseAt: fleet.database)
                let findings = diagnosis.findings.filter { $0.processes.contains { $0.pid == reader.pid } }
                #expect(findings.map(\.topic) == [.frozenParticipant], "\(diagnosis)")
                let what = try #require(findings.first?.message)
                #expect(
                    what.hasPrefix(
                        "'widget' (pid \(reader.pid)) is stopped in the middle of a read (since \(site)), and holds "
                    )
                        && what.hasSuffix(" back: no checkpoint can copy them."),
                    "\(what)"
                )
                #expect(
                    findings.first?.advice == "Continue it (kill -CONT \(reader.pid)) or end it, which ends its read."
                )

                try reader.process.killAndReap()
                #expect(try self.health(writer).pins.isEmpty)
                #expect(try toolPins(fleet).isEmpty)
            }
        }

        /// A program that knows nothing of Roundtable is named in the same way.
        @Test(
            .timeLimit(.minutes(1)),
            .enabled(if: hasPython, "/usr/bin/python3 is not installed")
        )
        func strangerIsNamed() throws {
            #if os(Linux)
                try PeerFleet.run { fleet in
                    let writer = try fleet.spawnOpen("app")
                    try writer.call(.write(rows: 1))
                    let script = """
                        import sqlite3, sys
                        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
                        connection.execute("BEGIN")
                        connection.execute("SELECT COUNT(*) FROM entry").fetchall()
                        print("reading", flush=True)
                        sys.stdin.read()
                        """
                    let stranger = ProgramSession(
                        try fleet.spawn(program: Self.python, arguments: ["-c", script, fleet.database.path])
                    )
                    #expect(try stranger.receive() == "reading")
                    #expect(try health(writer).pins.isEmpty)
                    try stranger.process.stop()
                    for _ in 0..<10 { try writer.call(.write(rows: 1)) }
                    for pins in [try health(writer).pins, try toolPins(fleet)] {
                        let pin = try #require(pins.first, "no process is named")
                        #expect(pins.count == 1, "\(pins)")
                        #expect(pin.holder.pid == stranger.process.pid && !pin.holder.isParticipant)
                        #expect(pin.holder.name?.hasPrefix("python3") == true)
                        #expect(pin.holder.liveness == .stopped)
                        #expect(pin.heldFrames >= 10)
                    }
                    try stranger.process.killAndReap()
                    #expect(try health(writer).pins.isEmpty)
                }
            #endif
        }

        /// No process is named while all goes well, nor after a read has ended.
        @Test(.timeLimit(.minutes(1)))
        func healthyFleetPinsNothing() throws {
            try PeerFleet.run { fleet in
                let peers = try fleet.spawnOpen(2)
                for peer in peers { try peer.call(.write(rows: 1)) }
                for peer in peers { #expect(try health(peer).pins.isEmpty) }
                try peers[0].call(.holdRead)
                try peers[1].call(.write(rows: 1))
                #expect(try health(peers[1]).pins.map(\.holder.pid) == [peers[0].pid])
                try peers[0].call(.release(commit: true))
                #expect(try health(peers[1]).pins.isEmpty)
            }
        }
    }
}
