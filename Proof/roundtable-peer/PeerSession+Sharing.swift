import Foundation
import Roundtable
import RoundtableTestSupport
import Synchronization

extension PeerSession {
    /// Each way of sharing has its own busy thread, so that a freeze at any moment interrupts some operation.
    func share(_ load: SharingLoad) throws -> SharingReport {
        let work = SharingWork()
        let snapshot = SnapshotFile<PeerSnapshotValue>(at: URL(fileURLWithPath: load.snapshot), as: "sharing")
        work.start { if work.check(try snapshot.read()) { work.note { $0.reads += 1 } } }
        let following = Task.detached {
            for await reading in snapshot.values() where work.check(reading) { work.note { $0.values += 1 } }
        }
        let files = CommitDurability.allCases.map { durability in
            var options = SnapshotFileOptions()
            options.durability = durability
            let url = URL(fileURLWithPath: load.own)
            return SnapshotFile<PeerSnapshotValue>(at: url, as: "sharing", options: options)
        }
        work.start {
            for (number, file) in files.enumerated() {
                try file.write(PeerSnapshotValue(number: number, size: .random(in: 0...20_000)))
                work.note { $0.writes += 1 }
                _ = work.check(try file.read())
            }
        }
        let outbox = try CommandOutbox(forDatabaseAt: URL(fileURLWithPath: load.path), as: "sender-\(load.sender)")
        work.start {
            guard let id = work.nextToAsk() else {
                usleep(1000)
                return
            }
            switch try outbox.outcome(of: id, within: .seconds(30)) {
            case .applied: work.note { $0.outcomes += 1 }
            case let other: work.note { $0.problems.append("outcome of \(id): \(other)") }
            }
        }
        let progress = try ProgressFile(countingAt: load.progress)
        var number = 0
        while !channel.hasInput {
            let command = PeerCommandEntry(sender: load.sender, n: number + 1)
            do {
                try outbox.submit(command, id: command.id)
            } catch {
                work.note { $0.problems.append("submitting \(command.n): \(error)") }
                break
            }
            number = command.n
            progress.record(number)
            work.ask(command.id)
        }
        following.cancel()
        return work.end(submitted: number)
    }
}

/// The state that the threads of `share` have in common.
private final class SharingWork: Sendable {
    private struct State {
        var report = SharingReport()
        var asked: [UUID] = []
    }
    private let state = Mutex(State())
    private let isOver = Atomic(false)
    private let threads = DispatchGroup()

    func start(_ body: @escaping @Sendable () throws -> Void) {
        threads.enter()
        Thread.detachNewThread { [self] in
            do {
                while !isOver.load(ordering: .acquiring) { try body() }
            } catch {
                note { $0.problems.append("\(error)") }
            }
            threads.leave()
        }
    }

    func end(submitted: Int) -> SharingReport {
        isOver.store(true, ordering: .releasing)
        threads.wait()
        note { $0.submitted = submitted }
        return state.withLock { $0.report }
    }

    func note(_ body: (inout SharingReport) -> Void) { state.withLock { body(&$0.report) } }

    /// - returns: whether the reading is a whole value.
    func check(_ reading: SnapshotReading<PeerSnapshotValue>) -> Bool {
        switch reading {
        case .value(let value, _) where value.isWhole: return true
        case .absent: return false
        case let other:
            note { $0.problems.append("read \(other)") }
            return false
        }
    }

    /// Requests the outcome of a command, unless four are pending. Waiting for all outcomes would take longer than submitting.
    func ask(_ id: UUID) {
        state.withLock { if $0.asked.count < 4 { $0.asked.append(id) } }
    }

    func nextToAsk() -> UUID? {
        state.withLock { $0.asked.isEmpty ? nil : $0.asked.removeFirst() }
    }
}
