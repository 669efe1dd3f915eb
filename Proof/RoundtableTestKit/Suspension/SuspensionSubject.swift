#if os(Linux)
    import Foundation
    import Glibc
    import Synchronization

    /// The judged process's end of the connection to the police.
    ///
    /// On Linux, it replaces the notifications by which iOS announces a suspension to an app, and the assertions that delay it
    /// (`beginBackgroundTask`, `performExpiringActivity`).
    ///
    /// ```swift
    /// let subject = try SuspensionSubject.connect { event in
    ///     switch event {
    ///     case .suspending: NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
    ///     case .expiring: stopWorking()
    ///     case .resumed: NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
    ///     }
    /// }
    /// ```
    ///
    /// Programs in other languages use the protocol directly: section J of docs/OPERATIONS-FORMATS.md.
    public final class SuspensionSubject: Sendable {
        /// A message from the police.
        public enum Event: Equatable, Sendable {
            /// The process will be frozen after this time, unless it holds an assertion.
            case suspending(Duration)
            /// The time of the assertions will be up after this time.
            case expiring(Duration)
            /// The suspension is over, whether the process was frozen or not.
            case resumed
        }

        /// Prevents the process from being frozen, until the assertion is ended or its time is up.
        public final class Assertion: Sendable {
            private let id: Int
            private let subject: SuspensionSubject

            fileprivate init(_ id: Int, _ subject: SuspensionSubject) {
                self.id = id
                self.subject = subject
            }

            deinit { end() }

            /// Ends the assertion: the process may be frozen from now on. A second call has no effect.
            public func end() { subject.endAssertion(id) }
        }

        private struct State {
            var nextID = 1
            var held: Set<Int> = []
            var answers: [Int: Bool] = [:]
            var hasEnded = false
        }

        private let descriptor: Int32
        private let state = Mutex(State())
        /// Signalled at each answer to a request, and at the end of the connection.
        private let answered = NSCondition()

        /// Connects to the police that the environment names.
        ///
        /// - parameter environment: the variables that name the police.
        /// - parameter onEvent: called with each event, one after the other, in its own thread.
        /// - returns: nil when the environment names no police.
        /// - throws: `SuspensionPoliceError` when the process cannot connect, for example because the police has ended.
        public static func connect(
            environment: [String: String] = ProcessInfo.processInfo.environment,
            onEvent: @escaping @Sendable (Event) -> Void
        ) throws -> SuspensionSubject? {
            try connect(environment: environment, beforeListening: { _ in }, onEvent: onEvent)
        }

        /// - parameter beforeListening: called before the first event.
        static func connect(
            environment: [String: String],
            beforeListening: (SuspensionSubject) -> Void,
            onEvent: @escaping @Sendable (Event) -> Void
        ) throws -> SuspensionSubject? {
            guard let name = environment[AbstractSocket.environmentName] else { return nil }
            let subject = SuspensionSubject(try AbstractSocket.connect(name))
            beforeListening(subject)
            Thread.detachNewThread { subject.listen(onEvent) }
            return subject
        }

        private init(_ descriptor: Int32) { self.descriptor = descriptor }

        deinit { close(descriptor) }

        /// Asks for an assertion, and waits for the answer.
        ///
        /// - parameter name: the name of the assertion, which ``Verdict/assertions`` reports.
        /// - returns: nil when the request is refused, or the connection has ended.
        public func begin(_ name: String) -> Assertion? {
            let id = state.withLock { state in
                defer { state.nextID += 1 }
                return state.nextID
            }
            guard AbstractSocket.send(.begin(id: id, name: name), to: descriptor) else { return nil }
            answered.lock()
            defer { answered.unlock() }
            while true {
                let answer: Bool? = state.withLock { state in
                    guard let isGranted = state.answers.removeValue(forKey: id) else {
                        return state.hasEnded ? false : nil
                    }
                    if isGranted { state.held.insert(id) }
                    return isGranted
                }
                if let answer { return answer ? Assertion(id, self) : nil }
                answered.wait()
            }
        }

        /// Tells the police that the process is ready to be frozen.
        public func answer() { AbstractSocket.send(.closed, to: descriptor) }

        private func endAssertion(_ id: Int) {
            if state.withLock({ $0.held.remove(id) }) != nil { AbstractSocket.send(.end(id: id), to: descriptor) }
        }

        private func listen(_ onEvent: (Event) -> Void) {
            var lines = SocketLines()
            while true {
                var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                _ = poll(&request, 1, -1)
                guard let messages = lines.read(descriptor) else { break }
                for message in messages {
                    switch message {
                    case .suspending(let milliseconds): onEvent(.suspending(.milliseconds(milliseconds)))
                    case .expiring(let milliseconds): onEvent(.expiring(.milliseconds(milliseconds)))
                    case .resumed: onEvent(.resumed)
                    case .granted(let id): settle { $0.answers[id] = true }
                    case .refused(let id): settle { $0.answers[id] = false }
                    case .begin, .end, .closed: break
                    }
                }
            }
            settle { $0.hasEnded = true }
        }

        private func settle(_ change: (inout State) -> Void) {
            answered.lock()
            defer { answered.unlock() }
            state.withLock { change(&$0) }
            answered.broadcast()
        }
    }
#endif
