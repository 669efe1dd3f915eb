/// Text in shared memory: a number (4 bytes), a length (1), and UTF-8.
///
/// Copied word by word, so that a reader in another process sees no torn word; it may see a mixture of two texts, which
/// harms nobody.
enum SharedText {
    /// - parameter load: reads the word at an offset.
    static func read(size: Int, _ load: (Int) -> UInt64) -> (text: String, number: UInt32) {
        var word = load(0)
        let number = UInt32(truncatingIfNeeded: word)
        let length = min(Int(word >> 32 & 0xFF), size - 5)
        // What is no UTF-8 is repaired.
        let text = String(unsafeUninitializedCapacity: length) { bytes in
            for index in 0..<length {
                let offset = index + 5
                if offset % 8 == 0 { word = load(offset) }
                bytes[index] = UInt8(truncatingIfNeeded: word >> UInt64(offset % 8 * 8))
            }
            return length
        }
        return (text, number)
    }

    /// - parameter store: writes the word at an offset.
    static func write(_ text: String, number: UInt32, size: Int, _ store: (Int, UInt64) -> Void) {
        var bytes = [UInt8](repeating: 0, count: size)
        withUnsafeBytes(of: number.littleEndian) { bytes.replaceSubrange(0..<4, with: $0) }
        // Whole characters. The end of a path (it has a line number) tells more than its beginning; of a name, the beginning.
        var content = text
        while content.utf8.count > size - 5 { if number == 0 { content.removeLast() } else { content.removeFirst() } }
        let utf8 = content.utf8
        bytes[4] = UInt8(utf8.count)
        bytes.replaceSubrange(5..<5 + utf8.count, with: utf8)
        for step in stride(from: 0, to: size, by: 8) {
            store(step, bytes[step..<step + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        }
    }
}
