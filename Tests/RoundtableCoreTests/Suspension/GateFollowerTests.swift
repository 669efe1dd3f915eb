import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// The followers of a gate are called in the order in which they were added, each step for all of them (rules F1 to F3).
@Suite struct GateFollowerTests {
    private final class Recorder: GateFollower {
        let name: String
        let log: Shared<[String]>

        init(_ name: String, _ log: Shared<[String]>) { (self.name, self.log) = (name, log) }

        private func note(_ step: String) {
            // Writes are interrupted again and again, until they have ended.
            log.change { if !$0.contains("\(name) \(step)") { $0.append("\(name) \(step)") } }
        }

        func gateWillAbort() { note("aborts") }
        func gateInterruptsWrites() { note("interrupts") }
        func gateInterruptsCheckpoint() { note("interrupts the checkpoint") }
        func gateDidClose(_ gate: SuspensionGate, until deadline: Nanoseconds) -> [SuspensionReport.Access] {
            note("closed")
            return []
        }
        func gateWillOpen() { note("opens") }
    }

    private let process = ProcessSuspension()
    private let log = Shared<[String]>([])

    private func logged(_ body: () -> Void) -> [String] {
        log.change { $0 = [] }
        body()
        return log.value
    }

    private func suspend(for time: Nanoseconds) { _ = process.suspend(until: MonotonicClock.now + time) }

    @Test func closingAndOpening() {
        let gate = SuspensionGate(path: "/db", policy: .writeLocks, process: process)
        let first = Recorder("first", log)
        var second: Recorder? = Recorder("second", log)
        gate.add(first)
        gate.add(second!)
        #expect(logged { suspend(for: 1_000_000_000) } == ["first closed", "second closed"])
        #expect(logged(process.resume) == ["first opens", "second opens"])
        // The gate does not keep a follower alive.
        weak let gone = second
        second = nil
        #expect(gone == nil)
        #expect(logged { suspend(for: 1_000_000_000) } == ["first closed"])
        withExtendedLifetime(first) {}
    }

    @Test func aborting() throws {
        let gate = SuspensionGate(path: "/db", policy: .writeLocks, process: process)
        let followers = ["first", "second"].map { Recorder($0, log) }
        followers.forEach(gate.add)
        let visit = try #require(gate.enter(.write, at: nil, isRunning: true))
        let aborted = ["first aborts", "second aborts", "first interrupts", "second interrupts"]
        #expect(logged { suspend(for: 50_000_000) } == aborted)
        // The last visit that leaves does what no thread waits for any more.
        gate.leave(visit, .rolledBack)
        log.wait { $0.contains("second closed") }
        #expect(log.value == aborted + ["first closed", "second closed"])
    }

    /// The last visit leaves a closed gate while the process can have no more threads. The followers are still notified.
    @Test func noThreadToSettleOn() throws {
        let gate = SuspensionGate(path: "/db", policy: .writeLocks, process: process)
        let follower = Recorder("first", log)
        gate.add(follower)
        let visit = try #require(gate.enter(.write, at: nil, isRunning: true))
        suspend(for: 50_000_000)
        #expect(!log.value.contains("first closed"))
        System.withFaults([Fault(.thread, errno: EAGAIN)]) { gate.leave(visit, .rolledBack) }
        log.wait { $0.contains("first closed") }
    }

    /// The suspending thread does not wait for a write that has committed, also when another visit is the last to hold a lock
    /// (rule F2).
    @Test func aCommittedWriteIsNotWaitedFor() async throws {
        let gate = SuspensionGate(path: "/db", policy: .writeLocks, process: process)
        let write = try #require(gate.enter(.write, at: nil, isRunning: true))
        let checkpoint = try #require(gate.enter(.checkpoint, at: nil, isRunning: true))
        gate.runningDidCommit()
        async let suspension = onThread { [process] in process.suspend(until: MonotonicClock.now + 60_000_000_000) }
        try await eventually("the gate closes") { gate.isClosed }
        gate.leave(checkpoint)
        let answer = try #require(await suspension.first)
        #expect(answer.outcome == .released)
        #expect(answer.duration < .seconds(30))
        gate.leave(write)
    }

    /// A write that has committed may write again after its gate was found drained, and before it is settled. It is aborted, and the suspending
    /// thread waits for its end (rule F3).
    @Test func aWriteContinuesBeforeItsGateIsSettled() throws {
        final class Continuing: GateFollower {
            let gate: SuspensionGate
            let visit: UInt64
            let other = Shared<Continuing?>(nil)
            let hasContinued = Shared(false)
            let interruptions = Shared(0)

            init(_ process: ProcessSuspension) throws {
                gate = SuspensionGate(path: "/db", policy: .writeLocks, process: process)
                visit = try #require(gate.enter(.write, at: nil, isRunning: true))
                gate.runningDidCommit()
                gate.add(self)
            }

            func gateDidClose(_ gate: SuspensionGate, until deadline: Nanoseconds) -> [SuspensionReport.Access] {
                if !hasContinued.value, let other = other.value {
                    other.hasContinued.change { $0 = true }
                    // As `WriterConnection` does.
                    if other.gate.runningContinues() { other.gate.abort() }
                }
                return []
            }

            /// The write ends with the second interruption, which comes after the gate was found held.
            func gateInterruptsWrites() {
                interruptions.change { $0 += 1 }
                if interruptions.value == 2 { gate.leave(visit, .rolledBack) }
            }
        }

        let (one, other) = (try Continuing(process), try Continuing(process))
        one.other.change { $0 = other }
        other.other.change { $0 = one }
        let reports = process.suspend(until: MonotonicClock.now + 30_000_000_000)
        #expect(reports.count == 2 && reports.allSatisfy(\.isReleased), "\(reports)")
        #expect(reports.allSatisfy { $0.duration < .seconds(10) })
        for follower in [one, other] { follower.gate.leave(follower.visit) }
        one.other.change { $0 = nil }
    }

    /// A step that runs outlives a database that is dropped without `close()`: it must still be interrupted (rules F3, K10).
    @Test func theCheckpointerFollowsByItself() throws {
        let folder = try TemporaryFolder()
        var db: SharedDatabase? = try SharedDatabase.open(
            at: folder.file("db"),
            schema: SharedSchema(migrator()),
            as: "app"
        )
        let gate = try #require(db).gate
        let checkpointer = try #require(db?.writer.checkpointer)
        db = nil
        #expect(gate.presentFollowers.contains { $0 === checkpointer })
    }
}
