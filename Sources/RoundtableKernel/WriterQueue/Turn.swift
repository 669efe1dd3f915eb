/// The turn word. It names the participant that writes now or is to write next.
package struct Turn: Hashable, Sendable, CustomStringConvertible {
    package enum Phase: UInt16, Sendable { case free, granted, busy, lingering }

    package let rawValue: UInt64

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    package init(_ phase: Phase, slot: Int?, generation: UInt32) {
        rawValue = UInt64(generation) << 32 | UInt64(slot.map { $0 + 1 } ?? 0) << 16 | UInt64(phase.rawValue)
    }

    package var generation: UInt32 { UInt32(rawValue >> 32) }

    /// The slot of the turn's holder; nil when the turn is free. It may be the number of a slot that does not exist (rule G2).
    package var slot: Int? {
        let number = Int(rawValue >> 16 & 0xFFFF)
        return number == 0 ? nil : number - 1
    }

    /// The phase. A word that no participant writes (rule G2) counts as free, and the next participant that takes the turn replaces it.
    package var phase: Phase {
        guard let phase = Phase(rawValue: UInt16(truncatingIfNeeded: rawValue)), let slot, slot < Layout.slotCount
        else {
            return .free
        }
        return phase
    }

    /// The word after this one, with the next generation.
    func next(_ phase: Phase, slot: Int? = nil) -> Turn { Turn(phase, slot: slot, generation: generation &+ 1) }

    /// The same turn in another phase.
    func with(_ phase: Phase) -> Turn { Turn(phase, slot: slot, generation: generation) }

    package var description: String {
        "\(phase)\(slot.map { "(\($0))" } ?? "") #\(generation)"
    }
}
