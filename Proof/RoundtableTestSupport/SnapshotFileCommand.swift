import RoundtableKernel

/// A command of a test to a peer that uses a snapshot file without a database.
package enum SnapshotFileCommand: Codable, Sendable {
    /// Writes one value. The reply's number is the sequence of the value.
    case write(path: String, number: Int)
    /// Writes values of random sizes until the time is over or a command arrives. The reply's number is the number of written values.
    case writeLoop(path: String, seconds: Double, isDurable: Bool)
    /// Reads until the time is over or a command arrives. The reply's number is the number of read values, its message is the first
    /// error. With `isOrdered`, a lower sequence after a higher one is an error.
    case readLoop(path: String, seconds: Double, isOrdered: Bool)
    /// Follows the file until the peer ends, and writes the number of each value into the `ProgressFile` at `log`.
    case follow(path: String, log: String)
}

/// A value with a checksum.
package struct PeerSnapshotValue: Codable, Sendable, Equatable {
    package let number: Int
    package let filler: String
    package let checksum: UInt64

    /// - parameter size: the size of the filler, in bytes.
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
