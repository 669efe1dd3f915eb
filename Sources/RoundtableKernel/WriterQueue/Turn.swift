/// The turn word: who writes next, or writes now.
package struct Turn: Hashable, Sendable, CustomStringConvertible {
    package enum Phase: UInt16, Sendable { case free, granted, busy, lingering }

    package let rawValue: UInt64

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    package init(_ phase: Phase, slot: Int?, generation: UInt32) {
        rawValue = UInt64(generation) << 32 | UInt64(slot.map { $0 + 1 } ?? 0) << 16 | UInt64(phase.rawValue)
    }

    package var generation: UInt32 { UInt32(rawValue >> 32) }

    /// nil when nobody has the turn. May name a slot that does not exist (rule G2).
    package var slot: Int? {
        let number = Int(rawValue >> 16 & 0xFFFF)
        return number == 0 ? nil : number - 1
    }

    /// A word that no participant writes (rule G2) counts as free: the next one puts a good one in its place.
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
