import ArgumentParser

/// The seed of a campaign's random choices, as a decimal number or with `0x`.
struct Seed: ExpressibleByArgument {
    var value: UInt64

    init?(argument: String) {
        let number = argument.hasPrefix("0x") ? UInt64(argument.dropFirst(2), radix: 16) : UInt64(argument)
        guard let number else { return nil }
        value = number
    }
}
