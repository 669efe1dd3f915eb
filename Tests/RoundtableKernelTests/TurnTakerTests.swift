import Dispatch
import Foundation
import RoundtableTrials
import Synchronization
import Testing

@testable import RoundtableKernel

/// Takers of turns on one block, as threads of this process. What needs processes is in `RoundtableProcessTests`.
@Suite struct TurnTakerTests: Sendable {
    let folder: TemporaryFolder
    let block: ControlBlock

    init() throws {
        folder = try TemporaryFolder()
        block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("db"), access: nil)
    }

    private func taker(_ name: String, _ settings: TurnSettings = .testing()) throws -> TurnTaker {
        let traits = ParticipantTraits(role: .readWrite, priority: settings.priority)
        return TurnTaker(participant: try Participant(in: block, author: name, traits: traits), settings: settings)
    }

    private func acquire(
        _ taker: TurnTaker,
        within time: Duration = .seconds(10),
        isLockFree: @autoclosure () -> Bool = false,
        cancellation: WaitCancellation? = nil
    ) -> TurnTaker.Outcome {
        let now = MonotonicClock.now
        return taker.acquire(at: now, until: now + time.nanoseconds, settingUp: false, cancellation: cancellation) {
            isLockFree()
        }
    }

    /// **Rule T1**: when no other participant waits, there is no wait.
    @Test func aParticipantAloneDoesNotWait() throws {
        let taker = try taker("a")
        for _ in 0..<1000 {
            #expect(acquire(taker, within: .zero) == .acquired)
            taker.release()
        }
    }

    /// **Rule T1**: a turn that one participant left, another takes at once.
    @Test func aReleasedTurnIsFree() throws {
        let (a, b) = (try taker("a"), try taker("b"))
        for _ in 0..<100 {
            #expect(acquire(a, within: .zero) == .acquired)
            a.release()
            #expect(acquire(b, within: .milliseconds(50)) == .acquired)
            b.release()
        }
    }

    /// **Rules T5, T8**: a slice is the holder's: it lasts as announced, however impatient the waiter is, first in the queue or not.
    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func impatienceEndsNoSlice(isSecond: Bool) throws {
        let slice = Duration.milliseconds(800)
        let holder = try taker("holder", .testing(slice: slice, patience: .seconds(10)))
        let first = try taker("first", .testing(patience: isSecond ? .seconds(10) : .milliseconds(5)))
        let second = try taker("second", .testing(patience: .milliseconds(5)))
        // The slice begins after this, however long this thread pauses.
        let began = MonotonicClock.now
        // Two transactions in a row: it writes in bursts. On a busy machine, the pause between them may be too long for that.
        var pause: Nanoseconds
        repeat {
            holder.release()
            #expect(acquire(holder) == .acquired)
            let beforePause = MonotonicClock.now
            holder.release()
            #expect(acquire(holder) == .acquired)
            pause = MonotonicClock.now - beforePause
        } while pause >= slice.nanoseconds / 8
        // The holder announces the end of its slice when it releases the turn while somebody waits. The lock is free from then on, as it is between
        // two transactions.
        let isLockFree = Atomic(false)
        let order = Mutex<[Nanoseconds]>([])
        let group = DispatchGroup()
        for waiter in isSecond ? [first, second] : [first] {
            let waiter = Shared(waiter)
            DispatchQueue.global().async(group: group) {
                #expect(
                    acquire(waiter.taker, isLockFree: isLockFree.load(ordering: .sequentiallyConsistent)) == .acquired
                )
                order.withLock { $0.append(MonotonicClock.now - began) }
                waiter.taker.release()
            }
            let count = waiter.taker === first ? 1 : 2
            // On a busy machine, the slice may be over before this thread looks: `times` shows that.
            try eventually("\(count) in the queue") {
                block.participants().count { $0.waiting != nil } == count || order.withLock { !$0.isEmpty }
            }
        }
        holder.release()
        isLockFree.store(true, ordering: .sequentiallyConsistent)
        var turns = 0
        while order.withLock({ $0.isEmpty }), MonotonicClock.now - began < 5_000_000_000 {
            #expect(acquire(holder) == .acquired)
            holder.release()
            turns += 1
        }
        #expect(group.wait(timeout: .now() + 10) == .success)
        let times = order.withLock { $0 }
        #expect(times.allSatisfy { $0 >= slice.nanoseconds }, "\(times) ns, after \(turns) turns of the holder")
    }

    /// **Rule T1b**: a wait that is continued has its place before a waiter that has queued meanwhile, its age, and its patience.
    ///
    ///     holder     early                late
    ///     turn
    ///                waits for 0 ms
    ///                                     queues
    ///                continues its wait
    ///     release
    ///                turn
    ///                release              turn
    @Test(.timeLimit(.minutes(1))) func aWaitIsContinued() throws {
        let (holder, early, late) = (try taker("holder"), try taker("early"), try taker("late"))
        #expect(acquire(holder) == .acquired)
        let began = MonotonicClock.now
        #expect(
            early.acquire(at: began, until: began, settingUp: false, keepsPlace: true) { false } == .timedOut
        )
        #expect(!block.participants().contains { $0.waiting != nil }, "not in the queue between two calls")
        let order = Mutex<[String]>([])
        var ends: [DispatchGroup] = []
        for (name, taker, keepsPlace) in [("late", late, false), ("early", early, true)] {
            let waiting = Shared(taker)
            ends.append(
                onThread {
                    let now = MonotonicClock.now
                    let outcome = waiting.taker.acquire(
                        at: now,
                        until: now + 20_000_000_000,
                        settingUp: false,
                        keepsPlace: keepsPlace
                    ) { false }
                    #expect(outcome == .acquired)
                    order.withLock { $0.append(name) }
                    waiting.taker.release()
                }
            )
            try waitUntil { block.participants().contains { $0.author == name && $0.waiting != nil } }
        }
        let waits = block.participants().filter { $0.waiting != nil }
        let longest = waits.max { ($0.waiting ?? 0) < ($1.waiting ?? 0) }
        #expect(longest?.author == "early", "the time of the first call counts")
        holder.release(continuing: false)
        for end in ends { end.wait() }
        #expect(order.withLock { $0 } == ["early", "late"])
    }

    /// **Rules T1b, T9**: a ticket that another participant has withdrawn is not continued.
    @Test(.timeLimit(.minutes(1))) func aWithdrawnTicketIsNotContinued() throws {
        /// It ends a wait that is not woken, so that the waiter does not look at its ticket again.
        final class End: WaitLimit, Sendable {
            private let isOver = Atomic(false)
            private let next = Atomic<Nanoseconds>(0)
            var nextQuestion: Nanoseconds { next.load(ordering: .relaxed) }
            func end() { isOver.store(true, ordering: .sequentiallyConsistent) }
            func mayContinue(at now: Nanoseconds) -> Bool {
                next.store(now + 1_000_000, ordering: .relaxed)
                return !isOver.load(ordering: .sequentiallyConsistent)
            }
        }
        let (holder, late) = (try taker("holder"), try taker("late"))
        let early = try taker("early", .testing(patience: .seconds(60)))
        #expect(acquire(holder) == .acquired)
        func wait(_ taker: TurnTaker, _ name: String, keepsPlace: Bool, _ limit: End? = nil) throws
            -> (end: DispatchGroup, outcome: Log<TurnTaker.Outcome>)
        {
            let (waiting, outcome) = (Shared(taker), Log<TurnTaker.Outcome>())
            let end = onThread {
                let now = MonotonicClock.now
                outcome.append(
                    waiting.taker.acquire(
                        at: now,
                        until: now + 20_000_000_000,
                        settingUp: false,
                        keepsPlace: keepsPlace,
                        limit: limit
                    ) { false }
                )
            }
            try waitUntil { block.participants().contains { $0.author == name && $0.waiting != nil } }
            return (end, outcome)
        }
        let limit = End()
        let first = try wait(early, "early", keepsPlace: true, limit)
        let slot = try #require(block.participants().first { $0.author == "early" }?.slot)
        block.slot(slot).ticket.pointee.store(0, ordering: .sequentiallyConsistent)
        limit.end()
        first.end.wait()
        #expect(first.outcome.entries == [.timedOut])
        let behind = try wait(late, "late", keepsPlace: false)
        let continued = try wait(early, "early", keepsPlace: true)
        holder.release(continuing: false)
        behind.end.wait()
        #expect(behind.outcome.entries == [.acquired] && continued.outcome.entries.isEmpty, "the late one is first")
        late.release(continuing: false)
        continued.end.wait()
        #expect(continued.outcome.entries == [.acquired])
        early.release()
    }

    /// **Rule T8**: a slice that is announced while a participant waits is waited for, and not only by later waiters.
    @Test(.timeLimit(.minutes(1))) func aSliceAnnouncedMeanwhileIsWaitedFor() throws {
        let (holder, waiter) = (try taker("holder"), try taker("waiter", .testing(patience: .milliseconds(100))))
        #expect(acquire(holder) == .acquired)
        let slot = try #require(block.participants().first { $0.author == "holder" }?.slot)
        let isLockFree = Mutex(false)
        let thread = Mutex<SleepingThread?>(nil)
        let acquiredAt = Mutex<Nanoseconds>(0)
        let waiting = Shared(waiter)
        let end = onThread {
            thread.withLock { $0 = .current }
            let now = MonotonicClock.now
            let outcome = waiting.taker.acquire(at: now, until: now + 20_000_000_000, settingUp: false) {
                isLockFree.withLock { $0 }
            }
            #expect(outcome == .acquired)
            acquiredAt.withLock { $0 = MonotonicClock.now }
        }
        try waitUntil { block.participants().contains { $0.author == "waiter" && $0.waiting != nil } }
        try #require(thread.withLock { $0 }).waitUntilItSleeps()
        // As after a pause between two transactions: the turn's word is again the one that the waiter sleeps on.
        let sliceEnd = MonotonicClock.now + 600_000_000
        block.slot(slot)[.lingerUntil] = sliceEnd
        isLockFree.withLock { $0 = true }
        end.wait()
        #expect(acquiredAt.withLock { $0 } >= sliceEnd)
    }

    /// **Rules G2, T5**: an end of a slice that no slice has is garbage, and keeps no participant waiting.
    @Test func anAbsurdSliceIsOver() throws {
        let (a, b) = (try taker("a"), try taker("b"))
        #expect(acquire(a) == .acquired)
        a.release()
        let slot = try #require(block.participants().first { $0.author == "a" }).slot
        let turn = Turn(.lingering, slot: slot, generation: 77)
        block.turn.pointee.store(turn.rawValue, ordering: .sequentiallyConsistent)
        block.slot(slot)[.lingerUntil] = MonotonicClock.now + 3_600_000_000_000
        let began = MonotonicClock.now
        #expect(acquire(b) == .acquired)
        #expect(MonotonicClock.now - began < TurnSettings.longestSlice)
    }

    /// **Rules T5, T8**: a participant that dies between two transactions of a long slice is found dead before the slice is over.
    @Test(.timeLimit(.minutes(1))) func theDeadFinishNoSlice() throws {
        let violations = try TimedTrial.run { trial in
            let (a, b) = (try taker("a"), try taker("b", .testing(patience: .milliseconds(40))))
            #expect(acquire(a) == .acquired)
            a.release()
            let slot = block.slot(try #require(block.participants().first { $0.author == "a" }).slot)
            let dead = try endedProcess()
            let word = slot.owner.pointee.load(ordering: .sequentiallyConsistent)
            block.locks.drop(slot.index, of: word)
            slot[.startTime] = dead.startTime
            let owner = OwnerWord(pid: dead.pid, incarnation: slot.traits.incarnation)
            slot.owner.pointee.store(owner.rawValue, ordering: .sequentiallyConsistent)
            let turn = Turn(.lingering, slot: slot.index, generation: 77)
            block.turn.pointee.store(turn.rawValue, ordering: .sequentiallyConsistent)
            slot[.lingerUntil] = MonotonicClock.now + 900_000_000
            let began = MonotonicClock.now
            #expect(acquire(b) == .acquired)
            trial.expect("the turn", Double(MonotonicClock.now - began) / 1e6, atMost: 500)
            b.leave()
        }
        #expect(violations == [])
    }

    /// **Rule T11**: at the deadline a waiter leaves the queue.
    @Test func theDeadlineEndsAWait() throws {
        let (a, b) = (try taker("a"), try taker("b"))
        #expect(acquire(a) == .acquired)
        #expect(acquire(b, within: .milliseconds(30)) == .timedOut)
        #expect(block.participants().allSatisfy { $0.waiting == nil })
        // The longest wait counts those that end without the turn.
        #expect(block.participants().contains { $0.longestWait >= 30_000_000 })
        a.release()
        #expect(acquire(b) == .acquired)
    }

    /// **Rule T8**: a holder that does not hold SQLite's lock is stepped over when patience ends; **T10**: it notices.
    @Test func aHolderWithoutTheLockIsSteppedOver() throws {
        let (a, b) = (try taker("a"), try taker("b", .testing(patience: .milliseconds(20))))
        #expect(acquire(a) == .acquired)
        let began = MonotonicClock.now
        #expect(acquire(b, isLockFree: true) == .acquired)
        #expect(MonotonicClock.now - began >= 20_000_000)
        a.release()
        #expect(b.hasTurn && !a.hasTurn)
        b.release()
        #expect(acquire(a) == .acquired)
    }

    /// **Rule T8**: a dead holder is stepped over when patience ends, and its slot freed.
    @Test func aDeadHolderIsSteppedOver() throws {
        let dead = try endedProcess()
        let (a, b) = (try taker("a"), try taker("b", .testing(patience: .milliseconds(20))))
        #expect(acquire(a) == .acquired)
        let slot = try #require(block.participants().first { $0.author == "a" }?.slot)
        block.slot(slot).owner.pointee.store(
            OwnerWord(pid: dead.pid, incarnation: 1).rawValue,
            ordering: .sequentiallyConsistent
        )
        #expect(acquire(b, isLockFree: false) == .acquired)
        #expect(!block.participants().contains { $0.author == "a" })
    }

    /// All participants of a process that wait at a gate are woken, and only those that still do.
    @Test func oneCancellationEndsManyWaits() {
        final class Waiter: Sendable {}
        let waiters = [Waiter(), Waiter(), Waiter()]
        let woken = Log<Int>()
        let cancellation = WaitCancellation()
        for (index, waiter) in waiters.enumerated() { cancellation.arm(waiter) { woken.append(index) } }
        cancellation.disarm(waiters[1])
        cancellation.cancel()
        #expect(woken.entries == [0, 2] && cancellation.isCancelled)
        cancellation.reset()
        #expect(!cancellation.isCancelled)
    }

    /// A cancelled wait ends at once, and leaves the queue.
    @Test func cancellationEndsAWait() throws {
        let (a, b) = (try taker("a"), try taker("b"))
        #expect(acquire(a) == .acquired)
        let waiting = Shared(b)
        let cancellation = WaitCancellation()
        let outcome = Log<TurnTaker.Outcome>()
        let thread = onThread { [self] in outcome.append(acquire(waiting.taker, cancellation: cancellation)) }
        try waitUntil { block.participants().contains { $0.author == "b" && $0.waiting != nil } }
        cancellation.cancel()
        thread.wait()
        #expect(outcome.entries == [.cancelled])
        #expect(block.participants().allSatisfy { $0.waiting == nil })
        // It was for that wait alone: the next one is not ended by it.
        #expect(acquire(b, within: .milliseconds(20), cancellation: WaitCancellation()) == .timedOut)
    }

    /// **Rule T5**: a turn that lingers is its holder's until the announced time is over. A newcomer draws a ticket, and waits.
    @Test func aLingeringTurnIsWaitedFor() throws {
        let (a, b) = (try taker("a"), try taker("b", .testing(patience: .seconds(60))))
        #expect(acquire(a) == .acquired)
        let slot = try #require(block.participants().first { $0.author == "a" }?.slot)
        let tickets = block.nextTicket.pointee.load(ordering: .relaxed)
        let until = MonotonicClock.now + 200_000_000
        block.slot(slot)[.lingerUntil] = until
        let busy = Turn(rawValue: block.turn.pointee.load(ordering: .relaxed))
        block.turn.pointee.store(busy.with(.lingering).rawValue, ordering: .sequentiallyConsistent)
        #expect(acquire(b) == .acquired)
        #expect(MonotonicClock.now >= until)
        #expect(block.nextTicket.pointee.load(ordering: .relaxed) == tickets + 1)
    }

    /// **Rule T8**: patience is about no progress. While SQLite's write lock is found taken, or the turn word changes, it starts again, so the
    /// lock is probed once in a patience at most, or not at all.
    @Test(arguments: [false, true]) func progressRestartsPatience(turnsChange: Bool) throws {
        /// Hands the turn from a holder to itself from time to time, on the thread that waits.
        final class Progress: WaitLimit {
            let block: ControlBlock
            init(_ block: ControlBlock) { self.block = block }
            var nextQuestion: Nanoseconds = 0
            var changes = 0
            func mayContinue(at now: Nanoseconds) -> Bool {
                nextQuestion = now + 20_000_000
                let turn = Turn(rawValue: block.turn.pointee.load(ordering: .relaxed))
                block.turn.pointee.store(turn.next(.busy, slot: turn.slot).rawValue, ordering: .sequentiallyConsistent)
                changes += 1
                return true
            }
        }
        let (patience, time): (Duration, Duration) = (.milliseconds(250), .milliseconds(1200))
        let (a, b) = (try taker("a"), try taker("b", .testing(patience: patience)))
        #expect(acquire(a) == .acquired)
        let progress = Progress(block)
        var probes = 0
        let now = MonotonicClock.now
        let outcome = b.acquire(
            at: now,
            until: now + time.nanoseconds,
            settingUp: false,
            limit: turnsChange ? progress : nil,
            isWriteLockFree: {
                probes += 1
                return false
            }
        )
        #expect(outcome == .timedOut)
        if turnsChange {
            #expect(probes == 0)
            #expect(progress.changes > 1)
        } else {
            #expect((1...4).contains(probes), "\(probes) probes")
        }
    }

    /// **Rule T3**: waiters go by priority, then by ticket; each 100 ms of waiting are worth a level.
    @Test func priorityThenTicket() throws {
        let start: Nanoseconds = 1_000_000_000
        let waiting: [(String, priority: UInt8, ticket: UInt64, since: Nanoseconds)] = [
            ("background", 2, 1, 0), ("second", 1, 3, 0), ("first", 1, 2, 0), ("interactive", 0, 4, 0),
            ("old background", 2, 5, 250_000_000), ("middling background", 2, 6, 150_000_000),
        ]
        var names: [Int: String] = [:]
        var participants: [Participant] = []
        for (name, priority, ticket, since) in waiting {
            let traits = ParticipantTraits(role: .readWrite, priority: priority)
            let participant = try Participant(in: block, author: name, traits: traits)
            participant.slot[.waitingSince] = start - since
            participant.slot.ticket.pointee.store(ticket, ordering: .relaxed)
            block.raiseWaitingBit(participant.slot.index)
            names[participant.slot.index] = name
            participants.append(participant)
        }
        let order = block.waiters { start }.map { names[$0.slot] }
        #expect(
            order == ["interactive", "old background", "first", "second", "middling background", "background"]
        )
        // After long enough, only tickets count.
        #expect(block.waiters { start + 1_000_000_000 }.map(\.ticket) == [1, 2, 3, 4, 5, 6])
    }

    /// **Rules T4, T5**: threads that write without pause share evenly, and none waits for patience.
    @Test(.timeLimit(.minutes(1))) func sharesAreEven() throws {
        let count = 6
        // A machine that pauses while a turn is handed on must not make a waiter impatient. One that is not woken would wait for
        // longer than the test lasts.
        let takers = try (0..<count).map { Shared(try taker("\($0)", .testing(patience: .seconds(5)))) }
        let turns = Log<Int>()
        let end = MonotonicClock.now + 1_500_000_000
        let threads = takers.map { shared in
            onThread { [self] in
                var taken = 0
                while MonotonicClock.now < end, acquire(shared.taker) == .acquired {
                    let done = MonotonicClock.now + 30_000
                    while MonotonicClock.now < done {}
                    shared.taker.release()
                    taken += 1
                }
                shared.taker.leave()
                turns.append(taken)
            }
        }
        threads.forEach { $0.wait() }
        let shares = turns.entries.map(Double.init)
        try #require(shares.allSatisfy { $0 > 0 }, "shares: \(shares)")
        let jain = pow(shares.reduce(0, +), 2) / (Double(count) * shares.map { $0 * $0 }.reduce(0, +))
        #expect(jain >= 0.95, "shares: \(shares)")
        #expect(block.value(of: .waitersEvicted) == 0)
    }

    // MARK: Helpers

    private final class Log<Entry: Sendable>: Sendable {
        private let mutex = Mutex<[Entry]>([])
        func append(_ entry: Entry) { mutex.withLock { $0.append(entry) } }
        var entries: [Entry] { mutex.withLock { $0 } }
    }

    /// A taker that one other thread uses.
    private struct Shared: @unchecked Sendable {
        // @unchecked: each test uses a taker from one thread at a time.
        let taker: TurnTaker
        init(_ taker: TurnTaker) { self.taker = taker }
    }

    /// Runs `body` on a thread of its own. The group ends with it.
    private func onThread(_ body: @escaping @Sendable () -> Void) -> DispatchGroup {
        let group = DispatchGroup()
        group.enter()
        Thread.detachNewThread {
            body()
            group.leave()
        }
        return group
    }

    private func waitUntil(_ condition: () -> Bool) throws {
        let deadline = ContinuousClock.now + .seconds(10)
        while !condition() {
            try #require(ContinuousClock.now < deadline)
            sched_yield()
        }
    }
}
