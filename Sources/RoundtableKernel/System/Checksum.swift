package enum Checksum {
    /// FNV-1a, 64 bits: tells what is damaged or cut off from what is whole; no more is asked of it.
    package static func fnv1a(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.withContiguousStorageIfAvailable(sum) ?? bytes.reduce(basis, step)
    }

    /// Not generic: other modules call the generic one without specializing it, which takes many times as long for each byte.
    private static func sum(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt64 {
        var sum = basis
        for byte in bytes { sum = step(sum, byte) }
        return sum
    }

    private static let basis: UInt64 = 0xCBF2_9CE4_8422_2325

    private static func step(_ sum: UInt64, _ byte: UInt8) -> UInt64 { (sum ^ UInt64(byte)) &* 0x100_0000_01B3 }
}
