#if os(Linux)
    import Glibc

    /// How a process is suspended.
    public struct SuspensionTerms: Codable, Sendable, Equatable {
        public enum Punishment: String, Codable, Sendable {
            /// SIGKILL, as iOS does.
            case kill
            /// The process goes on.
            case report
        }

        public var law = SuspensionLaw.documented
        /// How long before the freeze the notice is given; 0 for right before, nil for none at all.
        public var notice: Duration? = .milliseconds(50)
        /// The notice for a process that is not connected (``SuspensionSubject``): a signal, given only to a process that
        /// handles it. Without a handler, SIGTSTP would be the freeze itself.
        public var noticeSignal: Int32? = SIGTSTP
        /// How long after the notice a process that holds an assertion is frozen all the same; 0 to grant no assertion.
        public var assertionTime: Duration = .seconds(30)
        /// How long before that time is up the process is told.
        public var expiryNotice: Duration = .seconds(2)
        public var punishment = Punishment.kill

        public init() {}
    }
#endif
