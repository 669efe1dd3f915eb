import RoundtableKernel

/// What a peer does with a snapshot file, without a database.
package enum SnapshotFileCommand: Codable, Sendable {
    /// Writes one value. The reply's number is its sequence.
    case write(path: String, number: Int)
    /// Writes values of all sizes until the time is over or a command comes. The reply's number is how many.
    case writeLoop(path: String, seconds: Double, isDurable: Bool)
    /// Reads until the time is over or a command comes. The reply's number is how many values it has read, its message what was wrong.
    /// With `isOrdered`, sequences must not go back.
    case readLoop(path: String, seconds: Double, isOrdered: Bool)
    /// Follows the file until the peer ends, and writes the number of each value into the `ProgressFile` at `log`.
    case follow(path: String, log: String)
}

/// A value that tells whether it is whole.
package struct PeerSnapshotValue: Codable, Sendable, Equatable {
    package let number: Int
    package let filler: String
    package let checksum: UInt64

    /// - parameter size: of the filler, in bytes.
    package init(number: Int, size: Int) {
        self.number = number
        filler = String(repeating: String(UnicodeScalar(UInt8(97 + number % 26))), count: size)
        checksum = Self.checksum(number, filler)
    }

    package var isWhole: Bool { checksum == Self.checksum(number, filler) }

    private static func checksum(_ number: Int, _ filler: String) -> UInt64 {
        Checksum.fnv1a("\(number)\(filler)".utf8)
    }
}
