import Foundation
import RoundtableKernel
import Testing

@testable import RoundtableTool

/// The last commits, as an onlooker reads them from the change ring.
@Suite struct RecentCommitsTests {
    /// The outcome of a reserved record is waited for, but not after its owner has had time enough for the commit.
    @Test(arguments: [(age: 0.0, last: 1), (age: 1.5, last: 2)])
    func aRecordThatStaysReserved(age: Double, last: UInt64) throws {
        let folder = try Folder()
        let path = folder.path("a.db")
        let block = try ControlBlock.openOrCreate(forDatabaseAt: path, access: nil)
        let participant = try Participant(in: block, author: "app", traits: .init(role: .readWrite, priority: 1))
        let publisher = ChangePublisher(participant)
        publisher.reserve(counter: 1, tables: ["player"], now: MonotonicClock.now)
        publisher.settle(.committed)
        let now = MonotonicClock.now
        // A paused machine does not make a record older that lies in the future.
        publisher.reserve(
            counter: 2,
            tables: ["player"],
            now: age == 0 ? now + 60_000_000_000 : now - Nanoseconds(age * 1e9)
        )
        let commits = try #require(RecentCommits(ofDatabaseAt: path, countingAfter: 0, describing: 10))
        #expect(commits.lastSequence == last)
        #expect(commits.commits.map(\.sequence) == [1])
        #expect(commits.counts == [participant.owner: 1])
    }
}
