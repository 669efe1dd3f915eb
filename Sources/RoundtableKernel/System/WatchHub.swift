#if os(Linux)
    import CRoundtableShims
    import Glibc
    import Synchronization

    // Rule N9: On Linux a process has one inotify instance, opened for the first watch and closed after the last. inotify gives an inode
    // one watch, so watches are shared: the kernel is asked for what all subscribers want. When it ends a watch, or its queue overflows,
    // the subscribers watch again. A watch of a `-wal` ends with its first event, for all. A child of `fork` has an instance of its own.
    // Without an instance or a watch (`EMFILE`, `ENOSPC`), each subscriber looks every 250 ms (N3, V6, X14), and `doctor` reports it.

    /// The one inotify(7) instance of this process, and the thread that reads it (rule N9). All `FileWatch`es and `FolderWatch`es share it,
    /// because most systems allow a user 128 instances only.
    final class WatchHub: Sendable {
        private struct Subscription {
            let mailbox: WatchMailbox
            let path: String
            var mask: UInt32
            /// Whether the subscription ends with its first event.
            let isOnce: Bool
        }

        private struct Watch {
            /// The events that the kernel was asked for.
            var mask: UInt32
            /// Whether the kernel ends the watch with its first event.
            let isOneShot: Bool
            var subscriptions: [ObjectIdentifier: Subscription] = [:]
        }

        private final class Instance: Sendable {
            let descriptor: Int32
            let interrupter: Interrupter
            /// A child closes the descriptor in the `fork` itself, because the number may be another file's later.
            private let childIndex: Int32

            init() throws {
                interrupter = try Interrupter()
                descriptor = try System.perform(.inotify) { inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK)) }
                childIndex = rt_close_in_child(descriptor)
            }

            deinit {
                rt_keep_in_child(childIndex)
                close(descriptor)
            }
        }

        private struct State {
            /// The instance; nil while there are no members.
            var instance: Instance?
            /// The watches by watch descriptor. The kernel numbers watches upwards, so a late event of a watch that has ended reaches no
            /// other watch.
            var watches: [Int32: Watch] = [:]
            /// The subscribers and the watches of each. A subscriber may have no watch for a while.
            var members: [ObjectIdentifier: Set<Int32>] = [:]
        }

        private let state = Mutex(State())
        private let generation = rt_fork_generation()

        // MARK: One for each process

        /// The address of the hub, which is never freed; 0: there is none yet.
        private static let current = Atomic<UInt>(0)

        /// The hub of this process. A child after `fork` has a hub of its own, because reading events of the parent's instance or ending
        /// watches there would take them from the parent. No lock guards `current`, because a child may inherit it locked for ever.
        static var shared: WatchHub {
            while true {
                let address = current.load(ordering: .acquiring)
                let found = UnsafeRawPointer(bitPattern: address).map {
                    Unmanaged<WatchHub>.fromOpaque($0).takeUnretainedValue()
                }
                if let found, found.isInOwnProcess { return found }
                let new = Unmanaged.passRetained(WatchHub())
                let isMine = current.compareExchange(
                    expected: address,
                    desired: UInt(bitPattern: new.toOpaque()),
                    ordering: .acquiringAndReleasing
                ).exchanged
                if !isMine { new.release() }
            }
        }

        private var isInOwnProcess: Bool { generation == rt_fork_generation() }

        /// Throws in a child after `fork`, where a watch that is inherited from the parent does not work.
        private func checkProcess() throws {
            if !isInOwnProcess { throw SystemError(call: .inotify, errno: EBADF, path: nil) }
        }

        // MARK: Subscribers

        /// Subscribes `mailbox` to the next event of the file, or, if the file does not exist, to the next event of the folder. Earlier
        /// subscriptions of `mailbox` to one event end.
        ///
        /// - returns: whether `mailbox` had pending events, which are taken.
        func armOnce(
            _ mailbox: WatchMailbox,
            file: (path: String, mask: UInt32),
            folder: (path: String, mask: UInt32)
        ) throws -> Bool {
            try checkProcess()
            return try state.withLock { state in
                let instance = try openInstance(for: mailbox, &state)
                readEvents(instance, &state)
                let hadEvent = mailbox.take().events != 0
                var number = try armOnce(mailbox, instance, file.path, file.mask, &state)
                if number == nil {
                    let above = try add(instance, folder.path, folder.mask | UInt32(IN_MASK_ADD))
                    subscribe(mailbox, to: above, folder.path, folder.mask, isOneShot: false, isOnce: true, &state)
                    // The file may have been created before the folder was watched.
                    number = try armOnce(mailbox, instance, file.path, file.mask, &state) ?? above
                }
                let id = ObjectIdentifier(mailbox)
                for other in state.members[id] ?? []
                where other != number && state.watches[other]?.subscriptions[id]?.isOnce != false {
                    unsubscribe(id, from: other, &state)
                }
                return hadEvent
            }
        }

        /// Adds a watch that the kernel ends with its first event, so that later events cost the file's writers nothing.
        ///
        /// - returns: the watch's number; nil when there is no such file.
        private func armOnce(
            _ mailbox: WatchMailbox,
            _ instance: Instance,
            _ path: String,
            _ mask: UInt32,
            _ state: inout State
        ) throws -> Int32? {
            do {
                let number = try add(instance, path, mask | inOneShot)
                subscribe(mailbox, to: number, path, mask, isOneShot: true, isOnce: true, &state)
                return number
            } catch let error as SystemError where error.errno == ENOENT {
                return nil
            }
        }

        /// Subscribes `mailbox` to events of a folder or a file, in addition to its other subscriptions, until it leaves.
        func watch(_ mailbox: WatchMailbox, at path: String, mask: UInt32) throws {
            try checkProcess()
            try state.withLock { state in
                let instance = try openInstance(for: mailbox, &state)
                let number = try add(instance, path, mask | UInt32(IN_MASK_ADD))
                subscribe(mailbox, to: number, path, mask, isOneShot: false, isOnce: false, &state)
            }
        }

        /// Ends all subscriptions of `mailbox`.
        func leave(_ mailbox: WatchMailbox) {
            // In a child after `fork`, this hub's instance belongs to the parent.
            guard isInOwnProcess else { return }
            let id = ObjectIdentifier(mailbox)
            let last: Instance? = state.withLock { state in
                for number in state.members[id] ?? [] { unsubscribe(id, from: number, &state) }
                state.members[id] = nil
                guard state.members.isEmpty else { return nil }
                defer { state.instance = nil }
                state.watches = [:]
                return state.instance
            }
            // The reading thread closes the instance, because closing takes up to tens of milliseconds.
            last?.interrupter.interrupt()
        }

        private func openInstance(for mailbox: WatchMailbox, _ state: inout State) throws -> Instance {
            let instance = try state.instance ?? Instance()
            if state.instance == nil {
                guard DetachedThread.start(named: "roundtable.hub", { [self] in read(instance) }) else {
                    throw SystemError(call: .inotify, errno: EAGAIN, path: nil)
                }
                state.instance = instance
            }
            if state.members[ObjectIdentifier(mailbox)] == nil { state.members[ObjectIdentifier(mailbox)] = [] }
            return instance
        }

        // MARK: Watches

        private func add(_ instance: Instance, _ path: String, _ mask: UInt32) throws -> Int32 {
            try System.perform(.inotify, path) { inotify_add_watch(instance.descriptor, path, mask) }
        }

        private func remove(_ instance: Instance, _ number: Int32) {
            _ = try? System.perform(.inotify) { inotify_rm_watch(instance.descriptor, number) }
        }

        private func subscribe(
            _ mailbox: WatchMailbox,
            to number: Int32,
            _ path: String,
            _ mask: UInt32,
            isOneShot: Bool,
            isOnce: Bool,
            _ state: inout State
        ) {
            let id = ObjectIdentifier(mailbox)
            let earlier = state.watches[number]?.subscriptions[id]
            state.watches[number, default: Watch(mask: 0, isOneShot: isOneShot)].mask |= mask
            state.watches[number]?.subscriptions[id] =
                Subscription(
                    mailbox: mailbox,
                    path: path,
                    mask: mask | (earlier?.mask ?? 0),
                    isOnce: isOnce && earlier?.isOnce != false
                )
            state.members[id]?.insert(number)
        }

        private func unsubscribe(_ id: ObjectIdentifier, from number: Int32, _ state: inout State) {
            state.members[id]?.remove(number)
            state.watches[number]?.subscriptions[id] = nil
            narrow(number, &state)
        }

        /// Reduces a watch to the events that its subscribers want, because a folder further up may have many events.
        private func narrow(_ number: Int32, _ state: inout State) {
            guard let instance = state.instance, let watch = state.watches[number] else { return }
            guard let path = watch.subscriptions.values.first?.path else {
                state.watches[number] = nil
                // This fails when the watch has already ended.
                remove(instance, number)
                return
            }
            let wanted = watch.subscriptions.values.reduce(0) { $0 | $1.mask }
            guard wanted != watch.mask, !watch.isOneShot else { return }
            let found = try? add(instance, path, wanted)
            if found == number {
                state.watches[number]?.mask = wanted
                return
            }
            // The path leads elsewhere or nowhere by now. The subscribers of this watch must add new watches, and so must those of the
            // watch that was changed instead.
            notifyAll(of: number, UInt32(IN_IGNORED), state)
            if let found {
                if state.watches[found] == nil { remove(instance, found) }
                notifyAll(of: found, UInt32(IN_IGNORED), state)
            }
        }

        private func notifyAll(of number: Int32, _ events: UInt32, _ state: State) {
            for subscription in state.watches[number]?.subscriptions.values ?? [:].values {
                subscription.mailbox.tell(events)
            }
        }

        // MARK: Events

        private func read(_ instance: Instance) {
            while true {
                do {
                    if try waitForInput(instance.descriptor, instance.interrupter, timeout: nil).interrupt { return }
                } catch {
                    // The system refused to wait. The pause keeps the thread from spinning.
                    MonotonicClock.sleep(Self.pauseAfterFailure)
                }
                state.withLock { state in
                    if state.instance === instance { readEvents(instance, &state) }
                }
            }
        }

        private static let pauseAfterFailure: Nanoseconds = 250_000_000

        /// Reads under the lock, so that an event is delivered before a later watch begins, and after its own watch has been recorded.
        private func readEvents(_ instance: Instance, _ state: inout State) {
            withUnsafeTemporaryAllocation(byteCount: 4096, alignment: MemoryLayout<inotify_event>.alignment) { buffer in
                while true {
                    let count = Glibc.read(instance.descriptor, buffer.baseAddress, buffer.count)
                    if count <= 0 { return }
                    var offset = 0
                    while offset + MemoryLayout<inotify_event>.size <= count {
                        let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
                        receive(event.mask, from: event.wd, &state)
                        offset += MemoryLayout<inotify_event>.size + Int(event.len)
                    }
                }
            }
        }

        /// The events that every subscriber receives, whatever it asked for.
        private static let always = UInt32(IN_IGNORED) | UInt32(IN_UNMOUNT) | UInt32(IN_Q_OVERFLOW)

        private func receive(_ events: UInt32, from number: Int32, _ state: inout State) {
            if events & UInt32(IN_Q_OVERFLOW) != 0 {
                // The end of a watch may be among the lost events, so each subscriber must add a new watch.
                for number in state.watches.keys { notifyAll(of: number, events, state) }
                return
            }
            guard let watch = state.watches[number] else { return }
            for (id, subscription) in watch.subscriptions where events & (subscription.mask | Self.always) != 0 {
                subscription.mailbox.tell(events)
                guard subscription.isOnce else { continue }
                state.members[id]?.remove(number)
                state.watches[number]?.subscriptions[id] = nil
            }
            if events & UInt32(IN_IGNORED) != 0 {
                for id in watch.subscriptions.keys { state.members[id]?.remove(number) }
                state.watches[number] = nil
            } else if state.watches[number]?.subscriptions.count != watch.subscriptions.count {
                narrow(number, &state)
            }
        }

        /// Acts as if the kernel had reported these events. This is for tests of rare events.
        func receive(_ events: UInt32, from number: Int32) {
            state.withLock { receive(events, from: number, &$0) }
        }
    }

    /// `IN_ONESHOT`. Swift does not import this macro because of its form.
    private let inOneShot: UInt32 = 0x8000_0000
#endif
