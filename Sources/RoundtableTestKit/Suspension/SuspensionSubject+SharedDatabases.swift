#if os(Linux)
    import Foundation
    import Roundtable
    import Synchronization

    extension SuspensionSubject {
        /// Connects this process to the police that the environment names, so that its `SharedDatabase`s meet there what iOS does to
        /// them: they are suspended at the notice and resumed after the freeze, and writes and protected accesses hold the police's
        /// assertions. Without police, it does nothing; so a program can call it wherever it runs.
        ///
        /// ```swift
        /// try SuspensionSubject.connectSharedDatabases()
        /// let db = try SharedDatabase.open(at: url, schema: schema, as: "writer")
        /// ```
        ///
        /// - Parameters:
        ///   - takingAssertions: whether the process asks for assertions (`SharedDatabase.suspensionAssertions`).
        ///   - onEvent: called with each event, one after the other, in the thread that listens, which it must not block: before the
        ///     databases are suspended, and after they are resumed.
        ///   - onSuspension: called with what suspending has come to.
        /// - returns: nil when there is no police.
        /// - throws: `SuspensionPoliceError` when the police has ended.
        @discardableResult
        public static func connectSharedDatabases(
            environment: [String: String] = ProcessInfo.processInfo.environment,
            takingAssertions: Bool = true,
            onEvent: @escaping @Sendable (Event) -> Void = { _ in },
            onSuspension: @escaping @Sendable ([Suspension]) -> Void = { _ in }
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
                    // At once: on a busy machine, it takes a while until the other thread runs.
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

        /// The connection, for those that are made before it.
        private final class Connected: Sendable {
            private let state = Mutex<SuspensionSubject?>(nil)

            var subject: SuspensionSubject? {
                get { state.withLock { $0 } }
                set { state.withLock { $0 = newValue } }
            }
        }
    }
#endif
