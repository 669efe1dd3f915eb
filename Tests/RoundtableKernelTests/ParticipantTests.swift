import Foundation
import Synchronization
import Testing

@testable import RoundtableKernel

@Suite struct ParticipantTests {
    let folder: TemporaryFolder
    let block: ControlBlock

    init() throws {
        folder = try TemporaryFolder()
        block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("db"), access: nil)
    }

    private func join(_ author: String = "app") throws -> Participant {
        try Participant(in: block, author: author, traits: .init(role: .readWrite, priority: 1))
    }

    /// **Rule T3**: however closely a write that is more urgent follows the look at those that wait, the ticket gets its priority.
    @Test func priorityRisesWhileItIsSet() throws {
        let participant = try join()
        var looks = 0
        participant.setPriority {
            looks += 1
            return looks == 1 ? 2 : 0
        }
        #expect(participant.slot.traits.priority == 0)
        participant.raisePriority(to: 1)
        #expect(participant.slot.traits.priority == 0)
        participant.setPriority { 2 }
        participant.raisePriority(to: 1)
        #expect(participant.slot.traits.priority == 1)
    }

    @Test func aParticipantIsSeenByOthers() throws {
        let participant = try join("a name with ünicode")
        participant.slot.setCallSite(CallSite("App/Sync.swift", 88))
        let seen = try #require(block.participants().first)
        #expect(seen.author == "a name with ünicode")
        #expect(seen.pid == getpid() && seen.liveness == .alive)
        #expect(seen.callSite == "App/Sync.swift:88")
        #expect(seen.role == .readWrite && seen.waiting == nil && seen.writing == nil)
        participant.leave()
        #expect(block.participants().isEmpty)
    }

    @Test func textThatIsTooLongIsCut() throws {
        let participant = try join(String(repeating: "é", count: 500))
        participant.slot.setCallSite(
            CallSite(
                "Module/ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé/ThirtyOneLetters12345678901/End.swift",
                1
            )
        )
        let seen = try #require(block.participants().first)
        #expect(seen.author == String(repeating: "é", count: 21))
        let site = try #require(seen.callSite)
        #expect(site.hasPrefix("éé") && site.hasSuffix("é/ThirtyOneLetters12345678901/End.swift:1"))
        #expect(!site.contains("\u{FFFD}"))
        #expect(site.utf8.count - ":1".utf8.count == 90)
    }

    /// Places of every length are written, and nothing is left of a longer one that was there before.
    @Test func aPlaceInTheCodeIsWrittenWhole() throws {
        let slot = try join().slot
        let sites: [CallSite] = [
            CallSite("abcdefghijklmnopqrstuvwxyz", 7), CallSite("abcdefghijk", 4_000_000_000),
            CallSite("abcdefghij", 3),
            CallSite("abcd", 2), CallSite("abc", 1), CallSite("ab", 1), CallSite("a", 1),
        ]
        for site in sites {
            slot.setCallSite(site)
            slot.setReadCallSite(site)
            #expect(slot.callSite == "\(site.file):\(site.line)")
            #expect(slot.readCallSite == "\(site.file):\(site.line)")
        }
        slot.setCallSite(.unknown)
        #expect(slot.callSite == nil)
        #expect(slot.readCallSite == "a:1")
    }

    /// **Rule P1**: the slots of the dead are claimed when no other is left; the living keep theirs.
    @Test func theDeadMakeRoom() throws {
        let dead = try endedProcess()
        let participants = try (0..<Layout.slotCount).map { try join("\($0)") }
        #expect(throws: ControlBlock.Unusable.full) { try join() }

        let slot = participants[17].slot
        block.locks.drop(17, of: participants[17].ownerWord)
        slot.owner.pointee.store(
            OwnerWord(pid: dead.pid, incarnation: 9).rawValue,
            ordering: .sequentiallyConsistent
        )
        #expect(try join("new").slot.index == 17)
        #expect(throws: ControlBlock.Unusable.full) { try join() }
        #expect(block.value(of: .slotsReclaimed) == 1)
    }

    /// **Rule P6**: a slot that another participant took is not written to any more.
    @Test func aLostSlotIsLeftAlone() throws {
        let participant = try join("old")
        participant.slot.owner.pointee.store(0, ordering: .sequentiallyConsistent)
        #expect(!participant.isSeated)
        let other = try join("new")
        #expect(other.slot.index == participant.slot.index)
        participant.setState(.settingUp)
        participant.leave()
        #expect(other.isSeated && other.slot.traits.state == .present)
    }

    /// **Rule P4**.
    @Test func livenessIsPidAndStartTime() throws {
        let me = ProcessIdentity.current
        #expect(me.startTime != 0)
        #expect(me.liveness(seenFrom: me) == .alive)
        let namesake = ProcessIdentity(pid: me.pid, startTime: me.startTime + 1, namespace: me.namespace)
        #expect(namesake.liveness(seenFrom: me) == .dead)
        #expect(try endedProcess().liveness(seenFrom: me) == .dead)
        let elsewhere = ProcessIdentity(pid: me.pid, startTime: me.startTime + 1, namespace: me.namespace + 1)
        #expect(elsewhere.liveness(seenFrom: me) == .unknown)
    }

    /// **Rules P2, P4**: a slot that is claimed and not filled yet is judged by its pid alone, whatever a predecessor left.
    @Test func aClaimInProgressIsNotDead() throws {
        let participant = try join()
        let slot = participant.slot
        slot[.startTime] = 12345
        slot.owner.pointee.store(
            OwnerWord(pid: getpid(), incarnation: 4711).rawValue,
            ordering: .sequentiallyConsistent
        )
        let owner = slot.owner.pointee.load(ordering: .sequentiallyConsistent)
        #expect(block.liveness(of: slot, owner: owner, seenFrom: .current) == .alive)
    }

    @Test func stoppedProcessesAreReported() async throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sleep")
        process.arguments = ["60"]
        try process.run()
        let pid = process.processIdentifier
        defer {
            kill(pid, SIGKILL)
            process.waitUntilExit()
        }
        let entry = try #require(ProcessTable.entry(pid))
        let identity = ProcessIdentity(
            pid: pid,
            startTime: entry.startTime,
            namespace: ProcessIdentity.current.namespace
        )
        kill(pid, SIGSTOP)
        let deadline = ContinuousClock.now + .seconds(10)
        while identity.liveness(seenFrom: .current) != .stopped, ContinuousClock.now < deadline { await Task.yield() }
        #expect(identity.liveness(seenFrom: .current) == .stopped)
    }

    /// **Rule G2**: whatever the slots hold, looking at them is harmless, and a participant can join.
    @Test(arguments: 0..<20)
    func garbageIsHarmless(seed: UInt64) throws {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        func random() -> UInt64 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return state
        }
        for offset in stride(from: 128, to: Layout.fileSize, by: 8) {
            block.word(at: offset).pointee.store(random(), ordering: .relaxed)
        }
        #expect(block.isIntact)
        _ = block.participants()
        // Pids of garbage are mostly free; a seat is had unless all happen to be alive.
        let participant = try join()
        let taker = TurnTaker(participant: participant, settings: .testing(patience: .milliseconds(2)))
        let began = MonotonicClock.now
        let outcome = taker.acquire(at: began, until: began + 20_000_000_000, settingUp: false) { true }
        #expect(outcome == .acquired, "seed \(seed)")
        #expect(MonotonicClock.now - began < 10_000_000_000, "seed \(seed)")
        taker.release()
    }

    /// **Rule T8**: one participant clears the queue in an interval. A time in the future is garbage (rule G2).
    @Test func theQueueIsClearedOnceInAnInterval() {
        let (now, interval) = (MonotonicClock.now, Nanoseconds(1_000_000))
        block.word(at: Layout.Header.queueCleared).pointee.store(now + 3_600_000_000_000, ordering: .relaxed)
        #expect(block.mayClearQueue(at: now, interval: interval))
        #expect(!block.mayClearQueue(at: now, interval: interval))
        #expect(!block.mayClearQueue(at: now + interval - 1, interval: interval))
        #expect(block.mayClearQueue(at: now + interval, interval: interval))
    }

    /// A read of an earlier run of the WAL holds back all frames of the present one (rule O3).
    @Test(arguments: [
        (WalMark(frames: 5, salt: 1), 7), (WalMark(frames: 12, salt: 1), 0), (WalMark(frames: 20, salt: 1), 0),
        (WalMark(frames: 12, salt: 2), 12), (WalMark(frames: 0, salt: 2), 12),
    ])
    func framesThatAReadHoldsBack(mark: WalMark, expected: Int) {
        #expect(mark.framesHeld(now: WalMark(frames: 12, salt: 1)) == expected)
    }
}
