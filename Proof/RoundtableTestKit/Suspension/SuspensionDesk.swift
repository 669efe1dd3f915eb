#if os(Linux)
    import CRoundtableTestShims
    import Foundation
    import Glibc
    import Synchronization

    /// The police's end of all connections. Processes connect to it, receive notices and hold assertions. A thread serves them.
    final class SuspensionDesk: Sendable {
        let name: String
        private let listener: Int32
        /// A pipe that wakes the thread.
        private let wake: (reader: Int32, writer: Int32)
        private let state = Mutex(State())

        private struct Connection {
            let pid: Int32
            let user: UInt32
            var lines = SocketLines()
            var assertions: [Int: String] = [:]
            var closed: ContinuousClock.Instant?
            var isNotified = false
        }

        private struct State {
            var connections: [Int32: Connection] = [:]
            /// Processes whose requests for assertions are refused, because the time of their assertions is up.
            var refused: Set<Int32> = []
            var grantsAssertions = true
            var refusals = 0
            var random = SeededGenerator(seed: 0)
            var hasEnded = false
        }

        /// The most connections of each other user. Any user of the machine can connect, and must not use up the files of this process.
        static let mostOfOtherUser = 64

        private let refusedShare: Double

        init(grantsAssertions: Bool, refusedShare: Double = 0, seed: UInt64 = 0) throws {
            self.refusedShare = refusedShare
            name = "roundtable-police-\(getpid())-\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"
            let listener = try AbstractSocket.listen(name)
            self.listener = listener
            var ends: [Int32] = [-1, -1]
            guard pipe(&ends) == 0 else {
                defer { close(listener) }
                throw SuspensionPoliceError("pipe", errno: errno)
            }
            for end in ends {
                _ = fcntl(end, F_SETFD, FD_CLOEXEC)
                _ = fcntl(end, F_SETFL, O_NONBLOCK)
            }
            wake = (ends[0], ends[1])
            state.withLock { ($0.grantsAssertions, $0.random) = (grantsAssertions, SeededGenerator(seed: seed)) }
            Thread.detachNewThread { [self] in serve() }
        }

        deinit {
            // The thread does not close the pipe, because it may end while another thread is about to wake it.
            close(wake.reader)
            close(wake.writer)
        }

        /// Closes all connections. The desk cannot be used afterwards.
        func end() {
            state.withLock { $0.hasEnded = true }
            wakeThread()
        }

        // MARK: For the police

        var refusals: Int { state.withLock { $0.refusals } }

        /// Accepts all pending connections, and reads everything that was sent until now.
        func catchUp() {
            if state.withLock({ pump(&$0) }) { wakeThread() }
        }

        /// - returns: the number of connections that it was sent to.
        @discardableResult
        func send(_ message: SuspensionMessage, to pids: Set<Int32>) -> Int {
            state.withLock { state in
                state.connections.count { pids.contains($1.pid) && AbstractSocket.send(message, to: $0) }
            }
        }

        /// Gives notice to connections that have had none since `forget`.
        ///
        /// - returns: the processes that it was sent to.
        func giveNotice(milliseconds: Int, to pids: Set<Int32>) -> Set<Int32> {
            state.withLock { state in
                var notified: Set<Int32> = []
                for (descriptor, connection) in state.connections
                where !connection.isNotified && pids.contains(connection.pid) {
                    state.connections[descriptor]?.isNotified = true
                    guard AbstractSocket.send(.suspending(milliseconds: milliseconds), to: descriptor) else { continue }
                    notified.insert(connection.pid)
                }
                return notified
            }
        }

        func connectedPids(among pids: Set<Int32>) -> Set<Int32> {
            state.withLock { state in Set(state.connections.values.lazy.map(\.pid).filter(pids.contains)) }
        }

        /// The names of the assertions that these processes hold.
        func assertions(of pids: Set<Int32>) -> [String] {
            state.withLock { state in
                state.connections.values.filter { pids.contains($0.pid) }.flatMap(\.assertions.values)
            }
        }

        /// Refuses the requests of these processes for assertions from now on.
        func refuse(_ pids: Set<Int32>) {
            state.withLock { $0.refused.formUnion(pids) }
        }

        /// Resets the state of these processes for a new suspension: none has had notice or has answered, and assertions are granted again.
        func forget(_ pids: Set<Int32>) {
            state.withLock { state in
                state.refused.subtract(pids)
                for (descriptor, connection) in state.connections where pids.contains(connection.pid) {
                    state.connections[descriptor]?.closed = nil
                    state.connections[descriptor]?.isNotified = false
                }
            }
        }

        /// The time of the last answer of these processes; nil when none has answered.
        func answered(_ pids: Set<Int32>) -> ContinuousClock.Instant? {
            state.withLock { state in
                state.connections.values.filter { pids.contains($0.pid) }.compactMap(\.closed).max()
            }
        }

        // MARK: The thread

        private func wakeThread() {
            var byte: UInt8 = 1
            _ = write(wake.writer, &byte, 1)
        }

        private func serve() {
            while true {
                var requests = [wake.reader, listener].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
                let hasEnded = state.withLock { state in
                    requests += state.connections.keys.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
                    return state.hasEnded
                }
                if hasEnded { break }
                _ = poll(&requests, nfds_t(requests.count), -1)
                var buffer = [UInt8](repeating: 0, count: 64)
                while read(wake.reader, &buffer, buffer.count) > 0 {}
                _ = state.withLock { pump(&$0) }
            }
            let descriptors = state.withLock { state in
                defer { state.connections = [:] }
                return Array(state.connections.keys)
            }
            for descriptor in descriptors + [listener] { close(descriptor) }
        }

        /// - returns: whether a process has connected.
        private func pump(_ state: inout State) -> Bool {
            guard !state.hasEnded else { return false }
            var hasNew = false
            while let descriptor = AbstractSocket.accept(listener) {
                let user = rt_peer_user(descriptor)
                let isOther = user != geteuid() && user != 0
                if isOther, state.connections.values.count(where: { $0.user == user }) >= Self.mostOfOtherUser {
                    close(descriptor)
                    continue
                }
                state.connections[descriptor] = Connection(pid: rt_peer_pid(descriptor), user: user)
                hasNew = true
            }
            for descriptor in Array(state.connections.keys) {
                guard let messages = state.connections[descriptor]?.lines.read(descriptor) else {
                    state.connections[descriptor] = nil
                    close(descriptor)
                    continue
                }
                for message in messages { receive(message, from: descriptor, &state) }
            }
            return hasNew
        }

        private func receive(_ message: SuspensionMessage, from descriptor: Int32, _ state: inout State) {
            guard let connection = state.connections[descriptor] else { return }
            switch message {
            case .begin(let id, let name):
                let isGranted =
                    state.grantsAssertions && !state.refused.contains(connection.pid)
                    && Double.random(in: 0..<1, using: &state.random) >= refusedShare
                if isGranted { state.connections[descriptor]?.assertions[id] = name } else { state.refusals += 1 }
                AbstractSocket.send(isGranted ? .granted(id: id) : .refused(id: id), to: descriptor)
            case .end(let id):
                state.connections[descriptor]?.assertions[id] = nil
            case .closed:
                state.connections[descriptor]?.closed = .now
            case .suspending, .granted, .refused, .expiring, .resumed:
                break
            }
        }
    }
#endif
