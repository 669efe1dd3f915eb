package enum Checksum {
    /// The 64-bit FNV-1a checksum. It serves only to detect damaged or truncated data.
    package static func fnv1a(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.withContiguousStorageIfAvailable(sum) ?? bytes.reduce(basis, step)
    }

    /// This overload is not generic, because other modules call the generic one unspecialized, which takes many times as long.
    private static func sum(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt64 {
        var sum = basis
        for byte in bytes { sum = step(sum, byte) }
        return sum
    }

    private static let basis: UInt64 = 0xCBF2_9CE4_8422_2325

    private static func step(_ sum: UInt64, _ byte: UInt8) -> UInt64 { (sum ^ UInt64(byte)) &* 0x100_0000_01B3 }
}
