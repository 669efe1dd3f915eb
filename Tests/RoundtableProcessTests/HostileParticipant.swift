#if os(Linux)
    import Foundation
    import RoundtableTestSupport
    import Synchronization
    import Testing

    @testable import RoundtableKernel

    /// What a hostile participant writes into the control block. All of it is well-formed: ranges, checksums and liveness are right, and
    /// only the content is a lie.
    enum Lie: String, CaseIterable, CustomTestStringConvertible {
        /// Its slot has the turn, whatever other participants do.
        case turnForEver
        /// The turn word changes all the time, so that patience never ends.
        case turnFlickers
        /// Living participants with the best tickets and priorities stand in the queue for ever.
        case firstInTheQueue
        /// The last ticket is the largest number, or a small one.
        case forgedTickets
        /// The slots of other participants become those of a process that is dead, of another, or free.
        case othersAreDead
        /// Each free slot is taken by a process that lives.
        case fullHouse
        /// Records of commits that were never made, with wrong tables and counters.
        case forgedRecords
        /// Records that stay reserved, for commits that are to come.
        case reservedRecords
        /// The last record is one of the future, or of the past.
        case futureSequence
        /// Each record of other participants loses its tables, and gets the right checksum.
        case rewrittenRecords
        /// The futexes of all are woken all the time.
        case wakeStorm
        /// The lease of the checkpointer, and the pause of all, are renewed for ever.
        case checkpointer
        /// Another program checkpoints, for ever.
        case externalCheckpoints
        /// Leases and times that end in the far future.
        case farFuture
        /// Names and lines of code with escape sequences, invalid UTF-8, and wrong lengths.
        case names
        /// The database may be fenced, and a read is older than any.
        case fence

        var testDescription: String { rawValue }

        /// Whether a write may wait for its busy timeout: the queue never reaches it.
        var exhaustsTimeout: Bool { self == .turnFlickers || self == .firstInTheQueue }
    }

    /// A thread that maps the real control block as another user, and lies until it is ended.
    final class HostileParticipant: Sendable {
        private let hasEnded = Atomic<Bool>(false)
        private let done = DispatchSemaphore(value: 0)

        /// What a terminal would obey: a title, a cleared screen, a reversed line, a second line; then bytes that are no UTF-8.
        static let name = Array("\u{1B}]0;x\u{7}\u{1B}[2J\u{202E}\r\nroot".utf8) + [0xFF, 0xC3, 0x9B]

        /// - Parameters:
        ///   - victim: a process that lives, in whose name slots are taken.
        ///   - user: the user that maps the control block. It may write that, and not the database.
        init(
            _ lie: Lie,
            databasePath: String,
            victim: Int32,
            user: UInt32,
            seed: UInt64
        ) throws {
            let block = try OtherUser.runBlocking(as: user) {
                try ControlBlock.open(forDatabaseAt: databasePath, writable: true)
            }
            let liar = try Liar(block, victim: victim)
            Thread.detachNewThread { [self] in
                var random = SeededGenerator(seed: seed)
                while !hasEnded.load(ordering: .relaxed) {
                    liar.write(lie, using: &random)
                    usleep(.random(in: 0...1000, using: &random))
                }
                liar.leave()
                done.signal()
            }
        }

        /// Ends the thread, and waits until it has left the control block. A second call has no effect.
        func end() {
            if !hasEnded.exchange(true, ordering: .relaxed) { done.wait() }
        }
    }

    /// Writes lies into one control block. It is confined to one thread.
    private final class Liar: @unchecked Sendable {
        // @unchecked: one thread makes it, and another alone uses it.
        private let block: ControlBlock
        private let own: Participant
        private let victim: Int32
        private let victimStart: UInt64
        private var incarnation: UInt32 = 1_000_000
        private var taken: [Int: UInt64] = [:]

        init(_ block: ControlBlock, victim: Int32) throws {
            self.block = block
            self.victim = victim
            victimStart = ProcessTable.entry(victim)?.startTime ?? 0
            own = try Participant(
                in: block,
                author: "hostile",
                traits: ParticipantTraits(role: .readWrite, priority: 0)
            )
        }

        func leave() {
            for (index, owner) in taken { _ = block.slot(index).swapOwner(from: owner, to: 0) }
            own.leave()
        }

        private func header(_ offset: Int, _ value: UInt64) {
            block.word(at: offset).pointee.store(value, ordering: .sequentiallyConsistent)
        }

        private var others: [Slot] {
            block.slots.filter { slot in
                let owner = slot.owner.pointee.load(ordering: .acquiring)
                return owner != 0 && slot.index != own.slot.index && taken[slot.index] == nil
            }
        }

        private func nextOwner(pid: Int32) -> UInt64 {
            incarnation &+= 1
            return OwnerWord(pid: pid, incarnation: incarnation).rawValue
        }

        /// Takes a free slot for the victim, which lives.
        private func takeSlot() -> Slot? {
            guard let slot = block.slots.first(where: { $0.owner.pointee.load(ordering: .relaxed) == 0 }) else {
                return nil
            }
            let owner = nextOwner(pid: victim)
            guard slot.swapOwner(from: 0, to: owner) else { return nil }
            taken[slot.index] = owner
            slot[.startTime] = victimStart
            slot[.namespace] = ProcessIdentity.current.namespace
            slot.author = "victim"
            var traits = ParticipantTraits(role: .readWrite, priority: 0)
            traits.incarnation = OwnerWord(rawValue: owner).incarnation
            slot.traits = traits
            return slot
        }

        func write(_ lie: Lie, using random: inout SeededGenerator) {
            let now = MonotonicClock.now
            switch lie {
            case .turnForEver:
                own.slot[.writingSince] = now
                header(Layout.Header.turn, UInt64(own.slot.index + 1) << 16 | 2)
            case .turnFlickers:
                header(
                    Layout.Header.turn,
                    .random(in: 0...0xFFFF_FFFF, using: &random) << 32 | UInt64(own.slot.index + 1) << 16
                        | .random(in: 1...3, using: &random)
                )
            case .firstInTheQueue:
                if taken.count < 4 { _ = takeSlot() }
                for index in taken.keys {
                    let slot = block.slot(index)
                    slot[.waitingSince] = 1
                    slot.ticket.pointee.store(1, ordering: .sequentiallyConsistent)
                    block.raiseWaitingBit(index)
                }
            case .forgedTickets:
                block.nextTicket.pointee.store(
                    [0, 1, .max, .max - 1].randomElement(using: &random)!,
                    ordering: .relaxed
                )
            case .othersAreDead:
                guard let slot = others.randomElement(using: &random) else { return }
                // The largest pid of Linux is 4194304.
                let pids: [Int32] = [0, 4_194_303, victim, 1, -1]
                slot.owner.pointee.store(
                    nextOwner(pid: pids.randomElement(using: &random)!),
                    ordering: .sequentiallyConsistent
                )
            case .fullHouse:
                while takeSlot() != nil {}
            case .forgedRecords, .reservedRecords:
                let states: [ChangeRecord.State] =
                    lie == .forgedRecords ? [.committed, .aside, .void, .unsure] : [.reserved]
                let distance: UInt32 = [1, 2, 1000, 0x7FFF_FFFF, 0x8000_0000].randomElement(using: &random)!
                appendRecord(states.randomElement(using: &random)!, counter: lastCounter &+ distance, at: now)
            case .futureSequence:
                let last = block.lastSequence
                header(
                    Layout.Header.lastRecord,
                    [last &+ 1, last &+ 5000, 0, .max, .max - 1, 1 << 63].randomElement(using: &random)!
                )
            case .rewrittenRecords:
                let last = block.lastSequence
                for sequence in last > 8 ? last - 8...last : 0...0 where block.record(sequence) != nil {
                    rewriteTables(of: sequence)
                }
            case .wakeStorm:
                for _ in 0..<50 {
                    block.news.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
                    Futex.wake(block.news, all: true)
                    for slot in others {
                        slot.wakeWord.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
                        Futex.wake(slot.wakeWord, all: true)
                    }
                }
            case .checkpointer:
                header(Layout.Header.checkpointer, own.ownerWord)
                header(Layout.Header.checkpointLease, now + 240_000_000)
                header(Layout.Header.checkpointPause, now + 240_000_000)
            case .externalCheckpoints:
                header(Layout.Header.externalCheckpoints, now + 9_000_000_000)
            case .farFuture:
                let time: UInt64 = [.max, .max - 1, 1 << 63, now + 3_600_000_000_000].randomElement(using: &random)!
                for offset in [
                    Layout.Header.queueCleared, Layout.Header.checkpointLease, Layout.Header.checkpointPause,
                    Layout.Header.externalCheckpoints, Layout.Header.walSampleTime, Layout.Header.walSampleMark,
                    Layout.Header.checkpointFailureTime, Layout.Header.grants, Layout.Header.tablesInUse,
                ] { header(offset, time) }
                header(Layout.Header.checkpointer, own.ownerWord)
                header(Layout.Header.turn, UInt64(own.slot.index + 1) << 16 | .random(in: 1...3, using: &random))
                for slot in [own.slot] + others {
                    for field in Layout.SlotNumber.allCases where field != .startTime && field != .namespace {
                        slot[field] = time
                    }
                }
            case .names:
                for slot in [own.slot] + others {
                    for (field, size) in [
                        (Layout.Slot.author, Layout.Slot.authorSize), (Layout.Slot.callSite, Layout.Slot.callSiteSize),
                        (Layout.Slot.readCallSite, Layout.Slot.callSiteSize),
                    ] { writeName(slot, field, size, length: [28, 255, 43].randomElement(using: &random)!) }
                }
                own.slot[.writingSince] = now
                own.slot.show(OldestRead(since: now, mark: WalMark(frames: 1, salt: 1)))
            case .fence:
                header(Layout.Header.fence, .max)
                own.slot.show(OldestRead(since: 1, mark: WalMark(frames: 0, salt: 0)))
            }
        }

        // MARK: Names

        private func writeName(_ slot: Slot, _ field: Int, _ size: Int, length: UInt8) {
            var bytes = [UInt8](repeating: 0, count: 4) + [length] + HostileParticipant.name
            bytes += [UInt8](repeating: 0x1B, count: max(0, size - bytes.count))
            let base = Layout.headerSize + slot.index * Layout.slotSize + field
            for step in stride(from: 0, to: size, by: 8) {
                let word = bytes[step..<step + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                block.word(at: base + step).pointee.store(word, ordering: .relaxed)
            }
        }

        // MARK: Records

        /// The counter that the last record names.
        private var lastCounter: UInt32 {
            UInt32(
                truncatingIfNeeded: block.recordWord(block.lastSequence, Layout.Record.counter).pointee
                    .load(ordering: .relaxed)
            )
        }

        private func appendRecord(_ state: ChangeRecord.State, counter: UInt32, at now: Nanoseconds) {
            let sequence = block.lastSequence &+ 1
            block.recordWord(sequence, Layout.Record.sequence).pointee.store(0, ordering: .sequentiallyConsistent)
            block.recordWord(sequence, Layout.Record.state).pointee.store(state.word(sequence), ordering: .relaxed)
            for field in stride(from: Layout.Record.counter, to: Layout.Record.checksum, by: 8) {
                let value: UInt64 =
                    switch field {
                    case Layout.Record.counter: UInt64(counter)
                    case Layout.Record.owner: own.ownerWord
                    case Layout.Record.time: now
                    default: 0
                    }
                block.recordWord(sequence, field).pointee.store(value, ordering: .relaxed)
            }
            seal(sequence)
            header(Layout.Header.lastRecord, sequence)
            block.news.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
            Futex.wake(block.news, all: true)
        }

        private func rewriteTables(of sequence: UInt64) {
            for index in 0..<Layout.tableWords {
                block.recordWord(sequence, Layout.Record.tables + index * 8).pointee.store(0, ordering: .relaxed)
            }
            seal(sequence)
        }

        private func seal(_ sequence: UInt64) {
            var checksum = RecordChecksum(sequence)
            for field in stride(from: Layout.Record.counter, to: Layout.Record.checksum, by: 8) {
                checksum.add(block.recordWord(sequence, field).pointee.load(ordering: .relaxed))
            }
            block.recordWord(sequence, Layout.Record.checksum).pointee.store(checksum.value, ordering: .relaxed)
            block.recordWord(sequence, Layout.Record.sequence).pointee.store(sequence, ordering: .releasing)
        }
    }
#endif
