import Foundation
import Roundtable
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// Observers whose help is damaged, or not there, see all there is, if not as exactly (rules G1, L1–L5, N1–N4).
    @Suite struct ObservationDamage {
        private func spawnObservers(_ fleet: PeerFleet) throws -> [Observer] {
            [try fleet.spawnObserver("app"), try fleet.spawnObserver("widget", readOnly: true)]
        }

        private func expectFinalState(_ observers: [Observer], in fleet: PeerFleet) throws {
            let rows = try fleet.authors().count
            for observer in observers {
                try observer.expectFinalState(rows: rows)
            }
        }

        /// Whatever becomes of the control block.
        @Test(.timeLimit(.minutes(1)), arguments: ControlBlockDamage.Damage.allCases)
        func controlBlock(damage: ControlBlockDamage.Damage) throws {
            var random = SeededGenerator()
            try PeerFleet.run { fleet in
                let observers = try spawnObservers(fleet)
                let writers = try fleet.spawnOpen(2)
                for writer in writers { try writer.send(.writeLoop(WriteLoad(seconds: 60, think: 1))) }
                for _ in 0..<(isLongRun ? 20 : 4) {
                    try fleet.waitForProgress(of: writers, commits: 20)
                    usleep(.random(in: 0...20_000, using: &random))
                    try ControlBlockDamage().inflict(damage, on: fleet.controlBlock.path, using: &random)
                }
                try fleet.waitForProgress(of: writers, commits: 50)
                for writer in writers { try writer.stopLoop().expectNoErrors(writer) }
                try expectFinalState(observers, in: fleet)
                // One commit alone, as well.
                try writers[0].call(.write(rows: 1))
                try expectFinalState(observers, in: fleet)
                if damage.isRepaired {
                    // They use one control block again, and are notified exactly.
                    try eventually("\(damage): all are notified exactly") {
                        try writers[0].call(.write(rows: 1))
                        let rows = writers.map(\.acknowledged).reduce(0, +)
                        for observer in observers { try observer.waitForChange(rows) }
                        return try observers.allSatisfy { try $0.changes.last?.author == writers[0].name }
                    }
                }
            }
        }

        /// A user who may not open the control block learns that anything may have changed; one who may only read it, exactly
        /// what has (rules N1, L5, P7).
        @Test(
            .timeLimit(.minutes(1)),
            .enabled(if: isSuperuser, "only the superuser can start a process as another user"),
            arguments: [(0o600 as mode_t, 0o666 as mode_t), (0o600, 0o644), (0o644, 0o644)]
        )
        func anotherUser(block: mode_t, files: mode_t) throws {
            try PeerFleet.runTimed { fleet, trial in
                let writer = try fleet.spawnOpen("writer")
                for suffix in ["", "-wal", "-shm"] { chmod(fleet.database.path + suffix, files) }
                chmod(fleet.controlBlock.path, block)
                let observer = try fleet.spawnObserver("other", readOnly: true, user: nobody)
                for row in 1...20 {
                    try writer.call(.write(rows: 1))
                    try observer.expectNotification(row, in: trial)
                }
                try observer.expectFinalState(rows: 20)
                // It has no slot, and has created nothing.
                let status = try DatabaseStatus(ofDatabaseAt: fleet.database)
                #expect(status.participants.map(\.author) == ["writer"])
                for name in try FileManager.default.contentsOfDirectory(atPath: fleet.databaseFolder.path) {
                    let path = fleet.databaseFolder.appendingPathComponent(name).path
                    let owner = try FileManager.default.attributesOfItem(atPath: path)[.ownerAccountID] as? Int
                    #expect(owner == 0, "\(name)")
                }
                let isKnown = block == 0o644
                #expect(try observer.changes.allSatisfy { $0.author == (isKnown ? "writer" : "") })
                #expect(try observer.changes.allSatisfy { $0.tables == (isKnown ? ["entry"] : ["*"]) })
            }
        }

        /// A program that does to the wal-index what a process does that dies while it writes its header, or has yet to rebuild it.
        /// It does not use SQLite: closing the file drops no lock.
        private func spawnVandal(_ fleet: PeerFleet) throws -> (String) throws -> Void {
            let script = """
                import fcntl, os, sys
                index = os.open(sys.argv[1] + "-shm", os.O_RDWR)
                for line in sys.stdin:
                    what = line.strip()
                    if what == "zero":
                        os.pwrite(index, bytes(48), 0)
                    elif what == "tear":
                        os.pwrite(index, bytes([os.pread(index, 1, 56)[0] ^ 255]), 56)
                    elif what == "touch":
                        wal = os.open(sys.argv[1] + "-wal", os.O_RDWR)
                        os.ftruncate(wal, os.fstat(wal).st_size)
                        os.close(wal)
                    else:
                        for byte in (120, 122):
                            fcntl.lockf(index, fcntl.LOCK_EX if what == "lock" else fcntl.LOCK_UN, 1, byte)
                    print("done", flush=True)
                """
            let python = try #require(Program.python)
            let arguments = ["-c", script, fleet.database.path]
            let session = ProgramSession(try fleet.spawn(program: python, arguments: arguments))
            return { command in
                try session.send(command)
                _ = try session.receive()
            }
        }

        /// A writer that dies in the middle of the wal-index's header makes the next reader rebuild it, observers or not: the
        /// counter goes back to 0, and nothing is missed (rules R3, R5).
        @Test(
            .timeLimit(.minutes(1)),
            .enabled(if: Program.python != nil, "python3 is not installed"),
            arguments: ["zero", "tear"]
        )
        func walIndexIsRebuilt(damage: String) throws {
            try PeerFleet.runTimed { fleet, trial in
                let observers = try spawnObservers(fleet)
                let writer = try fleet.spawnOpen("writer")
                let pool = try fleet.spawn("pool")
                try pool.call(.openPool(fleet.opening(pool)))
                let vandal = try spawnVandal(fleet)
                var row = 0
                func write(_ peer: Peer) throws {
                    try peer.call(.write(rows: 1))
                    row += 1
                    for observer in observers { try observer.expectNotification(row, in: trial) }
                }
                for round in 0..<10 {
                    for _ in 0..<(3 + round) { try write(writer) }
                    try vandal(damage)
                    for peer in round.isMultiple(of: 2) ? [pool, writer] : [writer, pool] { try write(peer) }
                }
                for observer in observers {
                    try observer.expectFinalState(rows: row)
                    let sequences = try observer.changes.map(\.sequence)
                    #expect(sequences == sequences.sorted(), "\(observer.peer): numbers only grow")
                    // It has happened: numbers are not those of the rows any more.
                    #expect(try observer.changes.filter { $0.detail == "unrecorded" }.count >= 10)
                }
            }
        }

        /// An observation that gets `SQLITE_BUSY` waits, and continues: here another process rebuilds the wal-index, and takes long.
        @Test(.timeLimit(.minutes(1)), .enabled(if: Program.python != nil, "python3 is not installed"))
        func anObservationThatFindsALock() throws {
            try PeerFleet.run { fleet in
                let options = PeerOptions(busyTimeout: 100)
                let observers = [
                    try fleet.spawnObserver("app", options: options),
                    try fleet.spawnObserver("widget", readOnly: true, options: options),
                ]
                let writer = try fleet.spawnOpen("writer")
                for row in 1...3 {
                    try writer.call(.write(rows: 1))
                    for observer in observers {
                        try observer.waitForChange(row)
                        try observer.waitForValue(row)
                    }
                }
                let vandal = try spawnVandal(fleet)
                let before = try observers.map { (try $0.changes.count, try $0.values.count) }
                try vandal("lock")
                try vandal("zero")
                // They notice that the counter has changed, and cannot read what it is about.
                try vandal("touch")
                for (observer, count) in zip(observers, before) {
                    // Its own reads fail at the busy timeout.
                    try eventually("\(observer.peer) is notified") {
                        try observer.changes.count > count.0 && observer.changes.last?.readable == -1
                    }
                }
                // Other observations begin while it cannot be read.
                let late = observers.map { Observer($0.peer, logPath: $0.peer.progressPath + ".late") }
                for observer in late {
                    try observer.peer.send(.observe(Observing(log: observer.peer.progressPath + ".late")))
                }
                try stays("no observer receives a value", for: .milliseconds(300)) {
                    try zip(observers, before).allSatisfy { try $0.values.count == $1.1 }
                }
                try vandal("unlock")
                for (observer, count) in zip(observers, before) {
                    try eventually("\(observer.peer) reads again") {
                        try observer.changes.count > count.0 && observer.values.count > count.1
                    }
                }
                for observer in late {
                    let reply = try observer.peer.reply()
                    #expect(reply.outcome == .done, "\(reply.message ?? "")")
                    try observer.waitForValue(3)
                }
                try writer.call(.write(rows: 1))
                for observer in observers + late {
                    try observer.waitForValue(4)
                    try observer.waitForChange(4)
                    try observer.expectFinalState(rows: 4)
                }
            }
        }
    }
}
