#if os(Linux)
    import Foundation
    import Roundtable
    import Synchronization

    extension SuspensionSubject {
        /// Connects this process to the police that the environment names, and suspends its `SharedDatabase`s as on iOS.
        ///
        /// They are suspended at the notice and resumed after the freeze, and writes and protected accesses hold the police's
        /// assertions. Without the police, the function does nothing, so a program can call it wherever it runs.
        ///
        /// ```swift
        /// try SuspensionSubject.connectSharedDatabases()
        /// let db = try SharedDatabase.open(at: url, schema: schema, as: "writer")
        /// ```
        ///
        /// - Parameters:
        ///   - environment: the variables that name the police.
        ///   - takingAssertions: whether the process asks for assertions (`SharedDatabase.suspensionAssertions`).
        ///   - onEvent: called with each event, one after the other, before the databases are suspended, and after they are resumed.
        ///     It must not block, because it runs in the thread that receives the events.
        ///   - onSuspension: called with the result of each suspension.
        /// - returns: nil when the environment names no police.
        /// - throws: `SuspensionPoliceError` when the process cannot connect, for example because the police has ended.
        @discardableResult
        public static func connectSharedDatabases(
            environment: [String: String] = ProcessInfo.processInfo.environment,
            takingAssertions: Bool = true,
            onEvent: @escaping @Sendable (Event) -> Void = { _ in },
            onSuspension: @escaping @Sendable ([SuspensionReport]) -> Void = { _ in }
        ) throws -> SuspensionSubject? {
            let connected = Connected()
            let assertions = PoliceAssertions { connected.subject }
            let follower = SuspensionFollower(
                suspend: { onSuspension(SharedDatabase.suspendAll(deadline: $0)) },
                resume: { SharedDatabase.resumeAll() },
                answer: { connected.subject?.answer() }
            )
            return try connect(environment: environment) { subject in
                // The police may be suspending this process already.
                connected.subject = subject
                if takingAssertions { SharedDatabase.suspensionAssertions = assertions }
            } onEvent: { event in
                switch event {
                case .suspending(let time):
                    let deadline = ContinuousClock.now + time
                    onEvent(event)
                    // The gate is closed immediately, because on a busy machine it takes a while until the other thread runs.
                    ProcessSuspension.shared.close()
                    follower.suspending(until: deadline)
                case .expiring(let left):
                    onEvent(event)
                    assertions.expire(in: left)
                case .resumed:
                    follower.resumed()
                    onEvent(event)
                }
            }
        }

        /// Holds the connection for the objects that are created before it.
        private final class Connected: Sendable {
            private let state = Mutex<SuspensionSubject?>(nil)

            var subject: SuspensionSubject? {
                get { state.withLock { $0 } }
                set { state.withLock { $0 = newValue } }
            }
        }
    }
#endif
