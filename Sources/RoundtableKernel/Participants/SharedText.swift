/// Text in shared memory: a number (4 bytes), a length (1), and UTF-8.
///
/// It is copied word by word, so that a reader in another process sees no torn word. The reader may see a mixture of two
/// texts, which is harmless.
enum SharedText {
    /// - parameter load: reads the word at an offset.
    static func read(size: Int, _ load: (Int) -> UInt64) -> (text: String, number: UInt32) {
        var word = load(0)
        let number = UInt32(truncatingIfNeeded: word)
        let length = min(Int(word >> 32 & 0xFF), size - 5)
        // Names are nearly always printable ASCII, which needs no second look.
        var isPlain = true
        // `String` repairs invalid UTF-8.
        let text = String(unsafeUninitializedCapacity: length) { bytes in
            for index in 0..<length {
                let offset = index + 5
                if offset % 8 == 0 { word = load(offset) }
                let byte = UInt8(truncatingIfNeeded: word >> UInt64(offset % 8 * 8))
                if byte < 0x20 || byte >= 0x7F { isPlain = false }
                bytes[index] = byte
            }
            return length
        }
        return (isPlain ? text : text.withVisibleControls, number)
    }

    /// Writes a name, which has the number 0, and keeps its beginning, cut at a whole character.
    ///
    /// - parameter store: writes the word at an offset.
    static func write(_ name: String, size: Int, _ store: (Int, UInt64) -> Void) {
        var bytes = [UInt8](repeating: 0, count: size)
        var content = name
        while content.utf8.count > size - 5 { content.removeLast() }
        let utf8 = content.utf8
        bytes[4] = UInt8(utf8.count)
        bytes.replaceSubrange(5..<5 + utf8.count, with: utf8)
        for step in stride(from: 0, to: size, by: 8) {
            store(step, bytes[step..<step + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        }
    }

    /// Writes a call site, which keeps its end. This is done for each read, so it works without a copy and stores no more words than needed.
    @inline(__always)
    static func write(_ site: CallSite, size: Int, _ store: (Int, UInt64) -> Void) {
        site.file.withUTF8Buffer { utf8 in
            var first = max(0, utf8.count - (size - 5))
            while first < utf8.count, utf8[first] & 0xC0 == 0x80 { first += 1 }
            let end = utf8.count
            func byte(_ index: Int) -> UInt64 { index < end ? UInt64(utf8[index]) : 0 }
            var next = first + 3
            let start = byte(first) << 40 | byte(first + 1) << 48 | byte(first + 2) << 56
            store(0, UInt64(UInt32(clamping: site.line)) | UInt64(end - first) << 32 | start)
            var offset = 8
            while next < end {
                var word: UInt64 = 0
                if next + 8 <= end {
                    word = UnsafeRawPointer(utf8.baseAddress! + next).loadUnaligned(as: UInt64.self).littleEndian
                } else {
                    for index in next..<end { word |= byte(index) << UInt64((index - next) * 8) }
                }
                store(offset, word)
                next += 8
                offset += 8
            }
        }
    }
}
