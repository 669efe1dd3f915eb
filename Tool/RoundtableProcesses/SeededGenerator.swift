import Foundation

/// Reproducible random numbers: SplitMix64 (Steele, Lea, Flood 2014).
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    /// The seed that these numbers began with.
    public let seed: UInt64
    private var state: UInt64

    /// Numbers of the seed that the environment variable `ROUNDTABLE_SEED` names, or of a new one. The seed is printed, so that a failure
    /// can be reproduced.
    ///
    /// - parameter test: the name that is printed with the seed.
    package init(for test: String = #function) {
        self.init(seed: Self.chosenSeed ?? UInt64.random(in: 0...UInt64.max))
        print("\(test): ROUNDTABLE_SEED=0x\(String(seed, radix: 16))")
    }

    /// - parameter seed: the same seed gives the same numbers, on every machine.
    public init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    /// The next random number.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    package mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
    }

    /// The seed that the environment names.
    package static var chosenSeed: UInt64? {
        ProcessInfo.processInfo.environment["ROUNDTABLE_SEED"].flatMap(seed(named:))
    }

    /// - parameter text: a decimal number, or a hexadecimal one after `0x`, as it is printed.
    package static func seed(named text: String) -> UInt64? {
        text.hasPrefix("0x") ? UInt64(text.dropFirst(2), radix: 16) : UInt64(text)
    }
}
