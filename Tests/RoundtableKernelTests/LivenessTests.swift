#if os(Linux)
    import CRoundtableTestSupport
    import Foundation
    import Glibc
    import RoundtableTrials
    import Testing

    @testable import RoundtableKernel
    import Synchronization

    /// **Rules G4, P4, P9**: which processes live, as the locks of slots and the list of processes show. Real namespaces are in
    /// `RoundtableProcessTests`.
    @Suite struct LivenessTests {
        let folder: TemporaryFolder
        let path: String
        /// The same process, as another pid namespace would see it.
        let elsewhere: ProcessIdentity

        init() throws {
            folder = try TemporaryFolder()
            path = folder.file("db")
            let me = ProcessIdentity.current
            elsewhere = ProcessIdentity(pid: me.pid, startTime: me.startTime, namespace: me.namespace + 1)
        }

        private func open(writable: Bool = true) throws -> ControlBlock {
            try writable
                ? ControlBlock.openOrCreate(forDatabaseAt: path, access: nil)
                : ControlBlock.open(forDatabaseAt: path, writable: false)
        }

        private func join(_ block: ControlBlock, _ author: String = "app") throws -> Participant {
            try Participant(in: block, author: author, traits: .init(role: .readWrite, priority: 1))
        }

        private func seen(in block: ControlBlock) -> [Liveness] {
            block.participants(seenFrom: elsewhere).map(\.liveness)
        }

        // MARK: Locks

        /// Rule P4: a start time that is not known proves nothing.
        @Test func anUnknownStartTime() {
            let me = ProcessIdentity.current
            let unknown = ProcessIdentity(pid: me.pid, startTime: 0, namespace: me.namespace)
            #expect(unknown.liveness(seenFrom: me) == .alive)
            let another = ProcessIdentity(pid: me.pid, startTime: me.startTime + 1, namespace: me.namespace)
            #expect(another.liveness(seenFrom: me) == .dead)
        }

        /// Rule P4: the process that asks lives. It need not ask the system.
        @Test func theProcessThatAsks() throws {
            let me = ProcessIdentity.current
            let faults = [Fault(.kill, errno: ESRCH), Fault(.readProcess, errno: EACCES)]
            #expect(System.withFaults(faults) { me.liveness(seenFrom: me) } == .alive)
            #expect(System.withFaults(faults) { elsewhere.liveness(seenFrom: me) } == .unknown)
        }

        /// Of the participants that are left, one that cannot be judged may live.
        @Test func whetherSomebodyIsLeft() throws {
            let block = try open()
            #expect(!block.hasLivingParticipant())
            let participant = try join(block)
            #expect(block.hasLivingParticipant() && block.hasLivingParticipant(seenFrom: elsewhere))
            let owner = participant.slot.owner.pointee.load(ordering: .relaxed)
            let dead = OwnerWord(pid: try endedProcess().pid, incarnation: OwnerWord(rawValue: owner).incarnation)
            participant.slot.owner.pointee.store(dead.rawValue, ordering: .sequentiallyConsistent)
            #expect(!block.hasLivingParticipant())
            participant.slot.owner.pointee.store(owner, ordering: .sequentiallyConsistent)
            participant.leave()
            #expect(!block.hasLivingParticipant())
        }

        /// Rule P4: two processes whose pid namespaces cannot be read may be in different ones, where one's pid is that of no process, or of another.
        @Test func namespacesThatCannotBeRead() throws {
            let me = ProcessIdentity.current
            let reader = ProcessIdentity(pid: me.pid, startTime: me.startTime, namespace: 0)
            let other = ProcessIdentity(pid: me.pid, startTime: me.startTime + 1, namespace: 0)
            #expect(reader.liveness(seenFrom: reader) == .unknown)
            #expect(other.liveness(seenFrom: reader) == .unknown)
            // The locks of slots still show what lives.
            let block = try open()
            let participant = try join(block)
            participant.slot[.namespace] = 0
            #expect(try open().participants(seenFrom: reader).map(\.liveness) == [.alive])
        }

        /// From another pid namespace, only the lock shows life, and a mapping for reading is enough. It ends with the descriptor, as at death.
        @Test func aLockProvesLife() throws {
            var owned: ControlBlock? = try open()
            var participant: Participant? = try join(owned!)
            let (other, reader) = (try open(), try open(writable: false))
            #expect(participant?.slot.traits.isLocked == true)
            #expect(seen(in: other) == [.alive] && seen(in: reader) == [.alive])
            #expect(seen(in: owned!) == [.alive], "one's own lock is known, though the system does not report it")
            #expect(other.participants(seenFrom: elsewhere).map(\.isElsewhere) == [true])
            #expect(other.participants().map(\.isElsewhere) == [false])
            (participant, owned) = (nil, nil)
            #expect(seen(in: other) == [.dead] && seen(in: reader) == [.dead])
            // The pid decides first, and says that this process lives.
            #expect(other.participants().map(\.liveness) == [.alive])
        }

        /// A participant that leaves, or has lost the slot, releases the lock.
        @Test func theLockEndsWithTheSlot() throws {
            let (block, other) = (try open(), try open())
            let participant = try join(block)
            participant.leave()
            #expect(other.locks.isHeld(0) == false)
            let second = try join(block)
            second.slot.owner.pointee.store(0, ordering: .sequentiallyConsistent)
            #expect(other.locks.isHeld(0) == true)
            second.leave()
            #expect(other.locks.isHeld(0) == false)
        }

        /// A slot whose lock another holds is not claimed: its owner lives, whatever the owner word says.
        @Test func aLockedSlotIsNotClaimed() throws {
            let (block, other) = (try open(), try open())
            let late = try join(block)
            late.slot.owner.pointee.store(0, ordering: .sequentiallyConsistent)
            let next = try join(other)
            #expect(next.slot.index == 1)
            late.leave()
            #expect(try join(other, "third").slot.index == 0)
        }

        /// A process that may only read the block can hold shared locks on it. They prove no life, and a claim passes such a slot over.
        @Test func aSharedLockProvesNothing() throws {
            let (owned, other) = (try open(), try open())
            var participant: Participant? = try join(owned)
            let slot = try #require(participant?.slot.index)
            participant = nil
            let descriptor = Glibc.open(other.path, O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            func share(_ slots: Range<Int>) throws {
                var request = flock()
                request.l_type = Int16(F_RDLCK)
                request.l_whence = Int16(SEEK_SET)
                request.l_start = Layout.headerSize + slots.lowerBound * Layout.slotSize
                request.l_len = slots.count * Layout.slotSize
                // F_OFD_SETLK
                try #require(fcntl(descriptor, 37, &request) == 0)
            }
            try share(0..<3)
            #expect(seen(in: other) == [.dead], "the slot is not cleared yet")
            #expect(other.locks.isHeld(slot) == false)
            let next = try join(other)
            #expect(next.slot.index == 3)
            try share(4..<Layout.slotCount)
            let error = #expect(throws: ControlBlock.Unusable.self) { try join(other, "late") }
            #expect(error?.description.contains("locked by a process that only reads") == true)
        }

        /// A claim takes the lock before the slot, so that there is no moment at which a living owner lacks it.
        @Test func theLockComesFirst() throws {
            let (block, other) = (try open(), try open())
            let claim = block.locks.take(0, for: 7) {
                #expect(other.locks.isHeld(0) == true)
                return false
            }
            #expect(claim == nil && other.locks.isHeld(0) == false)
            #expect(other.locks.take(0, for: 8) { true } == true)
            #expect(block.locks.take(0, for: 7) { true } == nil)
        }

        /// A claim that fails, and a former owner that leaves, keep the lock of another participant that uses the same descriptor.
        @Test func theLockOfAnotherIsKept() throws {
            let (block, other) = (try open(), try open())
            #expect(block.locks.take(0, for: 7) { true } == true)
            #expect(block.locks.take(0, for: 8) { false } == nil)
            #expect(other.locks.isHeld(0) == true)
            block.locks.drop(0, of: 8)
            #expect(other.locks.isHeld(0) == true)
            block.locks.drop(0, of: 7)
            #expect(other.locks.isHeld(0) == false)
        }

        /// A claim in progress (rule P2) lives while its lock is held, also if its pid is that of no process here.
        @Test func aClaimInProgressElsewhere() throws {
            let (block, other) = (try open(), try open())
            let dead = try endedProcess()
            let word = OwnerWord(pid: dead.pid, incarnation: 4711).rawValue
            #expect(block.locks.take(3, for: word) { block.slot(3).swapOwner(from: 0, to: word) } == true)
            #expect(other.liveness(of: other.slot(3), owner: word, seenFrom: .current) == .alive)
            block.locks.drop(3, of: word)
            #expect(other.liveness(of: other.slot(3), owner: word, seenFrom: .current) == .dead)
        }

        /// Where the system refuses locks, it is as if there were none: from elsewhere nothing is known, and unknown is never dead.
        @Test(arguments: [
            Fault(.fcntl, errno: ENOLCK), Fault(.fcntl, errno: EINVAL), Fault(.open, errno: EMFILE, skipping: 1),
        ])
        func withoutLocks(fault: Fault) throws {
            _ = try open()
            let participant = try System.withFaults([fault]) { try join(open()) }
            #expect(!participant.slot.traits.isLocked)
            let other = try open()
            #expect(seen(in: other) == [.unknown])
            #expect(other.participants().map(\.liveness) == [.alive])
            other.clearQueue(seenFrom: elsewhere)
            #expect(participant.isSeated)
        }

        /// A process that cannot ask knows nothing.
        @Test(arguments: [Fault(.fcntl, errno: EINVAL), Fault(.open, errno: EMFILE), Fault(.fstat, errno: EIO)])
        func withoutAnAnswer(fault: Fault) throws {
            let participant = try join(open())
            let other = try open()
            #expect(System.withFaults([fault]) { seen(in: other) } == [.unknown])
            other.clearQueue(seenFrom: elsewhere)
            #expect(participant.isSeated)
            #expect(seen(in: other) == [.alive])
        }

        /// A block that was replaced (rule L4) is not asked for the locks of the one that is mapped.
        @Test func aReplacedBlockShowsNothing() throws {
            let participant = try join(open())
            let other = try open()
            try FileManager.default.removeItem(atPath: ControlBlock.path(forDatabaseAt: path))
            _ = try open()
            #expect(seen(in: other) == [.unknown])
            withExtendedLifetime(participant) {}
        }

        /// A child of `fork` that does not `exec` keeps no lock of its dead parent.
        @Test func aForkedChildKeepsNoLock() throws {
            var owned: ControlBlock? = try open()
            var participant: Participant? = try join(owned!)
            let other = try open()
            let child = rt_fork()
            if child == 0 { while true { pause() } }
            #expect(child > 0)
            defer {
                kill(child, SIGKILL)
                waitpid(child, nil, 0)
            }
            #expect(seen(in: other) == [.alive])
            withExtendedLifetime(participant) {}
            (participant, owned) = (nil, nil)
            // The child runs its handlers before `pause`.
            try eventually("the child has released the lock") { seen(in: other) == [.dead] }
        }

        /// The descriptor does not survive `exec`, and there is one for all participants of a block.
        @Test func oneDescriptorThatIsClosedByExec() throws {
            func descriptors(_ identity: FileIdentity) throws -> [Int32] {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int32($0) }.filter {
                    (try? System.identity(ofFileAt: "/proc/self/fd/\($0)")) == identity
                }
            }
            let block = try open()
            let identity = block.file.identity
            #expect(try descriptors(identity).isEmpty, "the mapping needs none")
            let participants = try (0..<3).map { try join(block, "\($0)") }
            let found = try descriptors(identity)
            try #require(found.count == 1)
            #expect(fcntl(found[0], F_GETFD) == FD_CLOEXEC)
            withExtendedLifetime(participants) {}
        }

        // MARK: Slots of others

        /// **Rule P1**: a stopped owner keeps its slot in a block that is full.
        @Test func aStoppedOwnerKeepsItsSlot() throws {
            let block = try open()
            let participants = try (0..<Layout.slotCount).map { try join(block, "\($0)") }
            try withProgram(["/bin/sleep", "60"]) { stopped in
                kill(stopped, SIGSTOP)
                try eventually("it stops") { ProcessTable.entry(stopped)?.isStopped == true }
                let slot = participants[17].slot
                let owner = OwnerWord(pid: stopped, incarnation: slot.traits.incarnation).rawValue
                block.locks.drop(17, of: participants[17].ownerWord)
                slot[.startTime] = try #require(ProcessTable.entry(stopped)).startTime
                slot.owner.pointee.store(owner, ordering: .sequentiallyConsistent)
                #expect(block.liveness(of: slot, owner: owner, seenFrom: .current) == .stopped)
                #expect(throws: ControlBlock.Unusable.full) { try join(open(), "new") }
                #expect(slot.owner.pointee.load(ordering: .sequentiallyConsistent) == owner)
                #expect(block.value(of: .slotsReclaimed) == 0)
            }
        }

        // MARK: Processes

        /// A process lives while one of its threads does, and is stopped when all of them are, also when the main thread has ended.
        @Test(.enabled(if: python != nil, "python3 is not installed")) func theMainThreadHasEnded() throws {
            // exit(2), of this thread alone.
            let exit = """
                import ctypes, platform, threading, time
                threading.Thread(target=lambda: time.sleep(1000)).start()
                ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)
                """
            try withProgram([try #require(Self.python), "-c", exit]) { pid in
                try eventually("its main thread ends") {
                    let line = try String(decoding: ProcessTable.contents(of: "/proc/\(pid)/stat"), as: UTF8.self)
                    return line.contains(") Z ")
                }
                let start = try #require(ProcessTable.entry(pid)).startTime
                let identity = ProcessIdentity(pid: pid, startTime: start, namespace: ProcessIdentity.current.namespace)
                #expect(identity.liveness(seenFrom: .current) == .alive)
                #expect(ProcessTable.isRunning(pid))
                // What cannot be read proves no death.
                for call in [SystemCall.opendir, .readProcess] {
                    System.withFaults([Fault(call, errno: EMFILE)]) {
                        #expect(identity.liveness(seenFrom: .current) != .dead)
                    }
                }
                kill(pid, SIGSTOP)
                try eventually("it is stopped") { identity.liveness(seenFrom: .current) == .stopped }
                kill(pid, SIGCONT)
                try eventually("it continues") { identity.liveness(seenFrom: .current) == .alive }
                kill(pid, SIGKILL)
                try eventually("it is dead, though its parent has not reaped it") {
                    identity.liveness(seenFrom: .current) == .dead
                }
            }
        }

        private static let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
            .first { FileManager.default.isExecutableFile(atPath: $0) }

        /// The program is killed and reaped in the end.
        private func withProgram(_ command: [String], _ body: (Int32) throws -> Void) throws {
            var pid: pid_t = 0
            var arguments = command.map { strdup($0) } + [nil]
            defer { for argument in arguments { free(argument) } }
            try #require(posix_spawn(&pid, command[0], nil, nil, &arguments, environ) == 0)
            defer {
                kill(pid, SIGKILL)
                waitpid(pid, nil, 0)
            }
            try body(pid)
        }

        // MARK: Time namespaces

        @Test func whatTheSystemSaysOfATimeNamespace() throws {
            let first = "monotonic           0         0\nboottime            0         0\n"
            #expect(TimeNamespace(offsets: first) == .first)
            let text = "monotonic        5000         7\nboottime        -3600  990000000\n"
            let namespace = try #require(TimeNamespace(offsets: text))
            #expect(namespace == TimeNamespace(monotonic: 5_000_000_000_007, boottime: -3_599_010_000_000))
            // 100 ticks a second: 3599.01 s.
            #expect(namespace.startTime(1000) == 360_901)
            #expect(TimeNamespace(monotonic: 0, boottime: 5).startTime(1000) == nil, "no whole tick")
            #expect(TimeNamespace(monotonic: 0, boottime: nil).startTime(1000) == nil)
            for garbage in [
                "", "monotonic 1", "monotonic x 0\nboottime 0 0", "boottime 0 0",
                "monotonic 99999999999999 0\nboottime 0 0",
            ] {
                #expect(TimeNamespace(offsets: garbage) == nil, "\(garbage)")
            }
        }
    }
#endif
