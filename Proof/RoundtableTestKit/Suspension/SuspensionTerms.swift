#if os(Linux)
    import Glibc

    /// The parameters of a suspension.
    public struct SuspensionTerms: Codable, Sendable, Equatable {
        /// What happens to a convicted process.
        public enum Punishment: String, Codable, Sendable {
            /// A convicted process is killed by SIGKILL, as on iOS.
            case kill
            /// A convicted process is only reported, and resumed.
            case report
        }

        /// The law that is applied to the frozen processes.
        public var law = SuspensionLaw.documented
        /// How long before the freeze the notice is given; 0 for immediately before, nil for no notice.
        public var notice: Duration? = .milliseconds(50)
        /// The signal that serves as the notice for a process that is not connected (``SuspensionSubject``); nil for none. It is sent only
        /// to a process that handles it, because SIGTSTP stops a process that has no handler.
        public var noticeSignal: Int32? = SIGTSTP
        /// How long after the notice a process is frozen even if it holds an assertion; 0 to grant no assertions.
        public var assertionTime: Duration = .seconds(30)
        /// The share of the requests for assertions that are refused at random, from 0 to 1. iOS refuses them when the suspension is near.
        /// Fixed at initialization of the police, as is ``refusalSeed``.
        public var refusedShare = 0.0
        /// The seed of these random choices.
        public var refusalSeed: UInt64 = 0
        /// How long before the end of ``assertionTime`` the process is notified.
        public var expiryNotice: Duration = .seconds(2)
        /// What happens to a convicted process.
        public var punishment = Punishment.kill

        public init() {}
    }
#endif
