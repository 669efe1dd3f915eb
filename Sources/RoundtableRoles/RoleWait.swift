import RoundtableKernel

// Rule P19: Who waits looks at the holder every 50 ms, and takes the role if that is free, or 100 ms later for each claim before its own
// that is not. A holder that is not free is asked (P16) when it has answered nothing for half of the waiting one's patience (1 s), and is
// passed over, as if it were free, if it does not answer in the other half, or has no slot and its process lives. Time in which the waiting
// process did not look does not count, beyond 50 ms a look. Without a control block nobody is asked and nobody passed over.

/// What a claim does that waits for a role (rule P19), as a state machine. It looks at least every `interval`.
struct RoleWait {
    enum Step: Equatable {
        case wait
        /// Ask all participants for a sign of life, and call `asked`.
        case ask
        /// Wake the participants again: the last question may have come while the holder was about to sleep.
        case remind
        /// Take the role.
        case take
    }

    /// The longest time between two looks. No more than this counts as time in which the holder was silent, so a process that was frozen
    /// itself does not blame others.
    static let interval: Nanoseconds = 50_000_000
    /// How long a free role is left to each claim that comes before.
    static let courtesy: Nanoseconds = 2 * interval

    private let patience: Nanoseconds
    private var holder: Int64?
    private var answered: UInt32?
    private(set) var question: UInt32?
    private var lastLook: Nanoseconds?
    /// Since when the holder was silent, or the role was free, in ns of looking.
    private var elapsed: Nanoseconds = 0
    private var kind = Kind.free
    private enum Kind { case free, present, absent }

    /// - parameter patience: how long a holder that gives no sign of life is waited for.
    init(patience: Nanoseconds) {
        // The last look and the transaction are within the patience, too.
        self.patience = patience.subtractingSaturating(2 * Self.interval)
    }

    /// - Parameters:
    ///   - holder: the claim that holds the role.
    ///   - canAsk: whether there is a control block, by which holders answer.
    ///   - ahead: the number of claims that come before.
    mutating func look(
        at now: Nanoseconds,
        holder: Int64?,
        _ sign: SignOfLife,
        canAsk: Bool,
        ahead: Int
    ) -> Step {
        let passed = lastLook.map { min(now.subtractingSaturating($0), Self.interval) } ?? 0
        lastLook = now
        let kind: Kind = sign.isFree ? .free : sign == .absent ? .absent : .present
        if holder != self.holder || kind != self.kind {
            (self.holder, self.kind, answered, question, elapsed) = (holder, kind, nil, nil, 0)
        } else {
            elapsed += passed
        }
        if kind == .free { return ahead == 0 || elapsed >= Nanoseconds(ahead) * Self.courtesy ? .take : .wait }
        // It has answered this question, or that of another participant.
        if case .present(let present) = sign, present != answered { (answered, question, elapsed) = (present, nil, 0) }
        guard canAsk else { return .wait }
        if question == nil { return elapsed >= patience / 2 ? .ask : .wait }
        return elapsed >= patience ? .take : .remind
    }

    /// The role could not be taken: it has changed hands, or the holder has answered at last.
    mutating func failed() { (question, elapsed) = (nil, 0) }

    mutating func asked(_ question: UInt32) { self.question = question }
}
