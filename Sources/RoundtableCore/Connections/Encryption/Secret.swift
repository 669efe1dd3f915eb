import CRoundtableShims

/// Bytes that are overwritten when they are no longer needed.
final class Secret {
    private let bytes: UnsafeMutableRawBufferPointer
    private(set) var count = 0

    init(capacity: Int) {
        bytes = .allocate(byteCount: capacity, alignment: 1)
        // The first unused byte terminates the C string.
        bytes.initializeMemory(as: UInt8.self, repeating: 0)
    }

    deinit {
        erase()
        bytes.deallocate()
    }

    func erase() {
        rt_erase(bytes.baseAddress, bytes.count)
        count = 0
    }

    func append(_ byte: UInt8) {
        precondition(count < bytes.count, "a secret that does not fit")
        bytes[count] = byte
        count += 1
    }

    func append(_ text: StaticString) { text.withUTF8Buffer { for byte in $0 { append(byte) } } }

    func append(hexadecimal byte: UInt8) {
        let digits: StaticString = "0123456789abcdef"
        append(digits.utf8Start[Int(byte >> 4)])
        append(digits.utf8Start[Int(byte & 0xF)])
    }

    /// Runs `body` with the bytes, without a terminating zero byte.
    func withBytes<T>(_ body: (UnsafeRawBufferPointer) throws -> T) rethrows -> T {
        try body(UnsafeRawBufferPointer(rebasing: bytes.prefix(count)))
    }

    /// Runs `body` with the bytes as a C string. The capacity must exceed `count` by at least one byte.
    func withCString<T>(_ body: (UnsafePointer<CChar>) throws -> T) rethrows -> T {
        precondition(count < bytes.count, "a C string without its end")
        return try bytes.withMemoryRebound(to: CChar.self) { try body($0.baseAddress!) }
    }
}
