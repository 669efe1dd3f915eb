import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Rule M7: what is requested after a call of `asyncWriteWithoutTransaction` runs after what the call has scheduled, although another task founds
/// a group during the call.
@Suite struct AsyncWriteOrderTests {
    private static let callers = 24

    private enum Event: Equatable {
        case scheduled(Int)
        case written(Int)
    }

    /// The connection is being opened again. Callers wait for that, and behind them waits a group that is founded during their calls. When the
    /// connection is open, all of them continue at once.
    @Test(arguments: 1...10) func noGroupOvertakes(round: Int) async throws {
        let folder = try TemporaryFolder()
        let isOpening = Shared(false)
        let mayOpen = Shared(true)
        defer { mayOpen.change { $0 = true } }
        var options = SharedDatabase.Options()
        options.process = ProcessSuspension()
        options.suspensionPolicy = .everything
        options.configuration.prepareDatabase { _ in
            isOpening.change { $0 = true }
            mayOpen.wait { $0 }
        }
        let db = try await SharedDatabase.open(
            at: folder.file("a.db"),
            schema: SharedSchema(migrator()),
            as: "test",
            options: options
        )
        try await shareCommit(db)
        _ = await onThread { [process = options.process] in process.suspend(until: MonotonicClock.now + 20_000_000_000)
        }
        options.process.resume()
        isOpening.change { $0 = false }
        mayOpen.change { $0 = false }

        let events = Shared<[Event]>([])
        let writes = await onThread { callWhileOpening(db, isOpening, mayOpen, events) }
        for write in writes { try await write.value }
        for number in 0..<Self.callers {
            let scheduled = try #require(events.value.firstIndex(of: .scheduled(number)))
            let written = try #require(events.value.firstIndex(of: .written(number)))
            #expect(scheduled < written, "\(number)")
        }
    }

    /// Lets two writes share a commit. After that, no write is alone, so the next one founds a group.
    private func shareCommit(_ db: SharedDatabase) async throws {
        let mayEnd = Shared(false)
        db.asyncWriteWithoutTransaction { _ in mayEnd.wait { $0 } }
        let before = db.sharedCommits.requestCount
        let writes = (0..<3).map { _ in Task { try await db.write { _ in } } }
        try await eventually("the writes are requested") { db.sharedCommits.requestCount == before + 3 }
        mayEnd.change { $0 = true }
        for write in writes { try await write.value }
    }

    /// - returns: all writes, including the writes that were requested after the calls.
    private func callWhileOpening(
        _ db: SharedDatabase,
        _ isOpening: Shared<Bool>,
        _ mayOpen: Shared<Bool>,
        _ events: Shared<[Event]>
    ) -> [Task<Void, any Error>] {
        let writes = Shared<[Task<Void, any Error>]>([])
        let calls = Shared(0)
        Thread.detachNewThread { db.asyncWriteWithoutTransaction { _ in } }
        isOpening.wait { $0 }
        for number in 0..<Self.callers {
            Thread.detachNewThread {
                calls.change { $0 += 1 }
                db.asyncWriteWithoutTransaction { _ in events.change { $0.append(.scheduled(number)) } }
                let write = Task { try await db.write { _ in events.change { $0.append(.written(number)) } } }
                writes.change { $0.append(write) }
            }
        }
        calls.wait { $0 == Self.callers }
        let before = db.sharedCommits.requestCount
        let founder = Task<Void, any Error> {
            _ = try await db.write { _ in
                // Its transaction takes the writes that come, as long as its group is open.
                waitUntil("the writes are requested") {
                    db.sharedCommits.requestCount == before + 1 + UInt64(Self.callers)
                }
            }
        }
        waitUntil("the group is founded") { db.sharedCommits.requestCount == before + 1 }
        mayOpen.change { $0 = true }
        writes.wait { $0.count == Self.callers }
        return writes.value + [founder]
    }
}
