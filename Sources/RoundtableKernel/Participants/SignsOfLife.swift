import Synchronization

// Rule P16: A participant that must know whether another one runs adds 1 to the word at 1028, and wakes the waiters of the news word
// without changing that. An observer that has a slot compares the word at 1028 with the last value that it has seen, when it begins and
// before each wait for news, and stores it at 52 of its slot in the same block. It has answered if 52 is that number or ahead of it, but
// not ahead of 1028 (G2). Who gets no answer wakes again, because the wake may have come before the sleep. The system cannot tell instead:
// it does not show a process of another pid namespace, nor, on iOS, any other process.

/// What a control block shows of the participant that an owner word names.
package enum SignOfLife: Equatable, Sendable {
    /// It has left, or its process is dead.
    case gone
    /// Its gate is closed: the system may freeze its process.
    case suspended
    /// It refuses its own writes, because it does not know a migration (rule S9).
    case refusesWrites
    /// The number of the last question that it has answered; nil: a number that no question has had (rule G2).
    case present(answered: UInt32?)
    /// No slot has this owner.
    case absent

    /// Whether the answer is to this question, or to a later one.
    package static func answers(_ answered: UInt32, _ question: UInt32) -> Bool {
        Int32(bitPattern: answered &- question) >= 0
    }
}

extension ControlBlock {
    private var questions: UnsafeMutablePointer<Atomic<UInt32>> { halfWord(at: Layout.Header.questions) }

    /// The number of the last question; 0: none.
    package var lastQuestion: UInt32 { questions.pointee.load(ordering: .acquiring) }

    /// Asks all participants for a sign of life.
    ///
    /// - returns: the number of the question.
    package func ask() -> UInt32 {
        let question = questions.pointee.wrappingAdd(1, ordering: .acquiringAndReleasing).newValue
        interruptNews()
        return question
    }

    /// What the participant with this owner word shows.
    package func signOfLife(of owner: OwnerWord, seenFrom reader: ProcessIdentity = .current) -> SignOfLife {
        let slot = slots.first { $0.owner.pointee.load(ordering: .acquiring) == owner.rawValue }
        guard let slot else { return .absent }
        if liveness(of: slot, owner: owner.rawValue, seenFrom: reader) == .dead { return .gone }
        let traits = slot.traits
        let answered = slot.answered.pointee.load(ordering: .acquiring)
        // The fields belong to this owner only if it is still the owner (rule P3).
        guard slot.owner.pointee.load(ordering: .acquiring) == owner.rawValue else { return .gone }
        if traits.state == .suspended { return .suspended }
        if traits.refusesWrites { return .refusesWrites }
        return .present(answered: SignOfLife.answers(lastQuestion, answered) ? answered : nil)
    }
}
