import Foundation

/// Reproducible random numbers: SplitMix64 (Steele, Lea, Flood 2014).
///
/// The seed comes from the environment variable `ROUNDTABLE_SEED`, or is a new one. It is printed, so that a failure can be
/// reproduced.
package struct SeededGenerator: RandomNumberGenerator {
    package let seed: UInt64
    private var state: UInt64

    /// - parameter test: the name that is printed with the seed.
    package init(for test: String = #function) {
        let chosen = ProcessInfo.processInfo.environment["ROUNDTABLE_SEED"].flatMap(Self.number)
        self.init(seed: chosen ?? UInt64.random(in: 0...UInt64.max))
        print("\(test): ROUNDTABLE_SEED=0x\(String(seed, radix: 16))")
    }

    package init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    package mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
    }

    private static func number(_ text: String) -> UInt64? {
        text.hasPrefix("0x") ? UInt64(text.dropFirst(2), radix: 16) : UInt64(text)
    }
}
