import Foundation
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// Commits of many processes, as observers in other processes are notified of them (rules R, N).
    @Suite struct Observation {
        /// Two peers that write, two that only read; one of them is slow.
        private func spawnObservers(_ fleet: PeerFleet) throws -> [Observer] {
            [
                try fleet.spawnObserver("watcher"),
                try fleet.spawnObserver("sequence", asSequence: true),
                try fleet.spawnObserver("reader", readOnly: true),
                try fleet.spawnObserver("slow", readOnly: true, pause: 10),
            ]
        }

        /// Writes one row that all observers are notified of exactly, which shows how sequences and rows belong together.
        private func begin(_ observers: [Observer], with writer: Peer) throws -> UInt64 {
            try writer.call(.write(rows: 1))
            var offsets: Set<UInt64> = []
            for observer in observers {
                try observer.waitForChange(1)
                let first = try observer.changes[0]
                #expect(first.detail == "commit" && first.readable == 1, "\(observer.peer): \(first)")
                offsets.insert(first.sequence - 1)
            }
            #expect(offsets.count == 1, "all count alike")
            return offsets.first ?? 0
        }

        private func expectSound(
            _ observers: [Observer],
            in fleet: PeerFleet,
            offset: UInt64,
            _ title: String,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws -> [ReceivedCounts] {
            let authors = try fleet.authors()
            for observer in observers {
                try observer.waitForEnd(sequence: offset + UInt64(authors.count))
                try observer.waitForValue(authors.count)
            }
            let pids = Dictionary(uniqueKeysWithValues: fleet.peers.map { ($0.name, $0.pid) })
            return try observers.map { observer in
                let counts = try observer.expectSound(
                    authors: authors,
                    offset: offset,
                    pids: pids,
                    sourceLocation: sourceLocation
                )
                print("\(title), \(authors.count) commits: \(observer.peer.name): \(counts)")
                return counts
            }
        }

        /// No observer misses the final state, none is notified of a change before it can read it, every gap is reported as one, and
        /// what is reported as exact is exact (rules R3, R5, N2, N6).
        @Test(.long(), .timeLimit(.minutes(5)))
        func fourWritersAndFourObservers() throws {
            try PeerFleet.run { fleet in
                let writers = try fleet.spawnOpen(4)
                let observers = try spawnObservers(fleet)
                let offset = try begin(observers, with: writers[0])
                let load = WriteLoad(seconds: 250, commits: isLongRun ? 10_000 : 1000)
                let began = MonotonicClock.now
                for (peer, report) in zip(writers, try fleet.writeAtOnce(writers, load)) { report.expectNoErrors(peer) }
                let took = MonotonicClock.now - began
                try expectFewFetches(of: observers, forABurstOf: writers[0], in: fleet)
                let allCounts = try expectSound(
                    observers,
                    in: fleet,
                    offset: offset,
                    "4 writers in \(took / 1_000_000) ms"
                )
                // No process died, and there was no stranger: most changes are reported exactly to quick observers.
                for counts in allCounts[0..<3] { #expect(counts.exact > counts.unrecorded) }
                // The slow one is notified of several commits as one.
                #expect(allCounts[3].several > 0)
            }
        }

        /// A burst of commits that comes while no observer can run costs few fetches, however fast or busy the machine is.
        private func expectFewFetches(of observers: [Observer], forABurstOf writer: Peer, in fleet: PeerFleet) throws {
            func fetches() throws -> [Int] {
                let rows = try fleet.authors().count
                return try observers.map { observer in
                    try observer.waitForValue(rows)
                    return try observer.values.count
                }
            }
            let before = try fetches()
            for observer in observers { try observer.peer.process.stop() }
            try fleet.writeAtOnce([writer], WriteLoad(seconds: 60, commits: 100))[0].expectNoErrors(writer)
            for observer in observers { observer.peer.process.resume() }
            for (after, before) in zip(try fetches(), before) { #expect((1...20).contains(after - before)) }
        }

        /// Writers are killed at random and replaced, and other writers are frozen for a while (rules R4, R5, N3).
        @Test(.long(), .timeLimit(.minutes(5)))
        func writersThatAreKilledAndFrozen() throws {
            var random = SeededGenerator()
            try PeerFleet.run { fleet in
                var writers = try fleet.spawnOpen(4)
                let observers = try spawnObservers(fleet)
                let offset = try begin(observers, with: writers[0])
                let load = WriteLoad(seconds: 250)
                for writer in writers { try writer.send(.writeLoop(load)) }
                for _ in 0..<(isLongRun ? 100 : 10) {
                    try fleet.waitForProgress(of: writers, commits: 20)
                    usleep(.random(in: 0...20_000, using: &random))
                    let index = writers.indices.randomElement(using: &random)!
                    if Bool.random(using: &random) {
                        try writers[index].process.killAndReap()
                        writers[index] = try fleet.spawnOpen("writer-\(fleet.peers.count)")
                        try writers[index].send(.writeLoop(load))
                    } else {
                        try writers[index].process.stop()
                        usleep(.random(in: 1000...200_000, using: &random))
                        writers[index].process.resume()
                    }
                }
                for writer in writers { _ = try writer.stopLoop() }
                _ = try expectSound(observers, in: fleet, offset: offset, "killed and frozen writers")
            }
        }

        /// A publisher dies between a commit and its announcement: the observers learn that anything may have changed, though
        /// no process wakes them. One that dies before committing has committed nothing (rules R4, R5, N3).
        @Test(.timeLimit(.minutes(1)), arguments: DyingMoment.allCases)
        func publisherThatDies(moment: DyingMoment) throws {
            try PeerFleet.runTimed { fleet, trial in
                let writer = try fleet.spawnOpen("writer")
                let observers = try spawnObservers(fleet)
                let offset = try begin(observers, with: writer)
                for round in 0..<5 {
                    let victim = try fleet.spawnOpen("victim-\(round)")
                    let before = try fleet.authors().count
                    try victim.send(.die(moment))
                    #expect(try victim.process.waitForExit() == .signal(SIGKILL))
                    if moment == .beforePublishing {
                        for observer in observers { try observer.expectNotification(before + 1, in: trial) }
                    }
                    if round.isMultiple(of: 2) { try writer.call(.write(rows: 1)) }
                }
                try writer.call(.write(rows: 1))
                let allCounts = try expectSound(observers, in: fleet, offset: offset, "\(moment)")
                for (observer, counts) in zip(observers, allCounts) {
                    switch moment {
                    case .beforeCommitting:
                        #expect(counts.unrecorded == 0, "\(observer.peer)")
                    case .beforePublishing:
                        #expect(counts.unrecorded == 5, "\(observer.peer)")
                    }
                }
            }
        }

        /// Wakes are hints: when none arrives, all observers are notified all the same, soon (rules N2, N3).
        @Test(.timeLimit(.minutes(1)))
        func wakesThatAreLost() throws {
            try PeerFleet.runTimed { fleet, trial in
                let writer = try fleet.spawnOpen("writer")
                let observers = try spawnObservers(fleet)
                let offset = try begin(observers, with: writer)
                try writer.call(.inject([Fault(.futexWake, errno: EIO)]))
                for row in 2...20 {
                    try writer.call(.write(rows: 1))
                    for observer in observers { try observer.expectNotification(row, in: trial) }
                }
                let allCounts = try expectSound(observers, in: fleet, offset: offset, "lost wakes")
                // What is reported late is reported exactly.
                for counts in allCounts { #expect(counts.exact == 20) }
            }
        }

        /// Own commits are reported once, and as own (rule N5).
        @Test(.timeLimit(.minutes(1)))
        func ownCommitsAreNotEchoed() throws {
            try PeerFleet.run { fleet in
                let both = try fleet.spawnObserver("both")
                let other = try fleet.spawnObserver("other")
                for observer in [both, other] { try observer.waitForValue(0) }
                for row in 1...50 {
                    try both.peer.call(.write(rows: 1))
                    for observer in [both, other] {
                        try observer.waitForValue(row)
                        try observer.waitForChange(row)
                    }
                }
                for observer in [both, other] {
                    let rows = try observer.changes.map(\.readable)
                    #expect(rows == Array(1...50), "\(observer.peer)")
                    let values = try observer.values.map(\.lastRow)
                    #expect(values == Array(0...50), "\(observer.peer): each value once")
                    #expect(try observer.changes.allSatisfy { $0.isOwn == (observer === both) }, "\(observer.peer)")
                }
            }
        }
    }
}

extension PeerFleet {
    /// Of all peers.
    fileprivate var totalCommits: Int { peers.map(\.acknowledged).reduce(0, +) }
}
