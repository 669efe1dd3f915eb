/// The secret in the address of the page: 128 random bits. Who does not have it gets nothing, not even other users of this machine.
struct Token: Sendable {
    let text: String

    init() {
        var generator = SystemRandomNumberGenerator()
        let words = [
            UInt64.random(in: .min ... .max, using: &generator), .random(in: .min ... .max, using: &generator),
        ]
        text = words.map { word in
            let digits = String(word, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    /// Compares in a time that does not depend on where the texts differ.
    func matches(_ other: some StringProtocol) -> Bool {
        let (own, other) = (Array(text.utf8), Array(other.utf8))
        guard own.count == other.count else { return false }
        return zip(own, other).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
