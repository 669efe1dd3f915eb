import Foundation
import RoundtableTrials
import Synchronization
import Testing

@testable import RoundtableKernel

/// How threads that wait for news learn of commits (rule N8).
@Suite struct NewsTests {
    /// Sleeps as the listeners do, and shows what it has seen.
    private final class Sleeper: Sendable {
        let block: ControlBlock
        let seen: Atomic<UInt32>
        let isStopped = Atomic(false)
        let thread = Mutex<SleepingThread?>(nil)
        private let ended = DispatchSemaphore(value: 0)

        init(_ block: ControlBlock) {
            self.block = block
            seen = Atomic(block.newsWord)
            Thread.detachNewThread { [self] in
                thread.withLock { $0 = .current }
                while !isStopped.load(ordering: .acquiring) {
                    let word = block.newsWord
                    seen.store(word, ordering: .releasing)
                    _ = block.waitForNews(after: word, timeout: 60_000_000_000)
                }
                ended.signal()
            }
        }

        func hasSeen(_ word: UInt32, within time: Nanoseconds) -> Bool {
            let deadline = MonotonicClock.now + time
            while seen.load(ordering: .acquiring) != word {
                if MonotonicClock.now > deadline { return false }
                MonotonicClock.sleep(10_000)
            }
            return true
        }

        func stop() {
            isStopped.store(true, ordering: .releasing)
            repeat { block.interruptNews() } while ended.wait(timeout: .now() + .milliseconds(1)) == .timedOut
        }
    }

    /// **Rule G3**: nothing wakes a thread that sleeps on a truncated file, so each sleep has an end.
    @Test func aSleepHasAnEnd() throws {
        let folder = try TemporaryFolder()
        let block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("a"), access: nil)
        let began = MonotonicClock.now
        #expect(block.waitForNews(after: block.newsWord, timeout: 20_000_000_000, longest: 20_000_000) == .timedOut)
        #expect(MonotonicClock.now - began < 10_000_000_000)
    }

    /// Each kind of commit wakes a sleeper, also one to attached databases alone, and one that another process may have made.
    @Test(arguments: [ChangeRecord.State.committed, .aside, .unsure])
    func aSleeperIsWoken(by state: ChangeRecord.State) throws {
        let folder = try TemporaryFolder()
        let block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("a"), access: nil)
        let traits = ParticipantTraits(role: .readWrite, priority: 1)
        let publisher = ChangePublisher(try Participant(in: block, author: "a", traits: traits))
        let sleeper = Sleeper(block)
        defer { sleeper.stop() }
        for round in 1...20 {
            publisher.reserve(counter: 7, tables: ["x"], now: MonotonicClock.now)
            let word = block.newsWord
            publisher.settle(state)
            #expect(block.newsWord == word &+ 1)
            try #require(sleeper.hasSeen(block.newsWord, within: 5_000_000_000), "round \(round)")
            // For longer than its first sleep lasts, and than a wake is spared (rule N8).
            try sleeper.thread.withLock { $0 }?.waitUntilItSleeps()
        }
        let word = block.newsWord
        publisher.reserve(counter: 7, tables: ["x"], now: MonotonicClock.now)
        publisher.settle(.void)
        #expect(block.newsWord == word)
    }

    /// The last commit of a burst is noticed, though most commits wake no thread, for any writer, and at any moment of falling asleep.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func noThreadSleepsThroughNews(seed: UInt64) throws {
        let folder = try TemporaryFolder()
        let block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("a"), access: FileAccess(mode: 0o644))
        let traits = ParticipantTraits(role: .readWrite, priority: 1)
        let publishers = try ["a", "b"].map {
            ChangePublisher(try Participant(in: block, author: $0, traits: traits))
        }
        let sleepers = (0..<2).map { _ in Sleeper(block) }
        defer { sleepers.forEach { $0.stop() } }
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        func random(below bound: UInt64) -> UInt64 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return state % bound
        }
        for round in 0..<200 {
            for _ in 0...random(below: 4) {
                let publisher = publishers[Int(random(below: 2))]
                publisher.reserve(counter: 7, tables: ["x"], now: MonotonicClock.now)
                publisher.settle(.committed)
                // The pause is near the time for which no thread is woken.
                let pause = MonotonicClock.now + random(below: 150_000)
                while MonotonicClock.now < pause {}
            }
            for sleeper in sleepers {
                try #require(sleeper.hasSeen(block.newsWord, within: 5_000_000_000), "seed \(seed), round \(round)")
            }
        }
    }
}
