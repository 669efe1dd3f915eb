/// A key that was pressed on a terminal.
package enum TerminalKey: Equatable, Sendable {
    case character(Character)
    /// A key together with Ctrl, by its letter.
    case control(Character)
    case enter, escape, backspace, delete, tab, up, down, left, right, home, end

    /// The keys of the bytes that a terminal has sent. Sequences of other keys are left out.
    package static func keys(of bytes: [UInt8]) -> [TerminalKey] {
        var keys: [TerminalKey] = []
        var rest = bytes[...]
        while let byte = rest.first {
            switch byte {
            case 0x1B:
                let (key, length) = sequence(rest)
                if let key { keys.append(key) }
                rest = rest.dropFirst(length)
                continue
            case 0x09: keys.append(.tab)
            case 0x0A, 0x0D: keys.append(.enter)
            case 0x08, 0x7F: keys.append(.backspace)
            case 0x00: break
            case 0x01..<0x20: keys.append(.control(Character(Unicode.Scalar(byte + 0x60))))
            default:
                let length = Self.length(ofCharacter: byte)
                guard let text = String(validating: rest.prefix(length), as: UTF8.self) else { break }
                keys += text.filter { !$0.isControl }.map(TerminalKey.character)
                rest = rest.dropFirst(length)
                continue
            }
            rest = rest.dropFirst()
        }
        return keys
    }

    /// How long the rest of a key may take, in ms.
    package static let patience: Int32 = 50

    /// The keys of bytes that may end within a character, or within the sequence of a key, because a terminal sends bytes in any pieces.
    ///
    /// - parameter more: waits for further bytes for `patience`; returns none when none come. The key Esc sends only the byte with which
    ///   sequences begin.
    package static func keys(of bytes: [UInt8], _ more: () -> [UInt8]) -> [TerminalKey] {
        var bytes = bytes
        while endWithinKey(bytes) {
            let more = more()
            if more.isEmpty { break }
            bytes += more
        }
        return keys(of: bytes)
    }

    /// The number of bytes of a character that begins with a byte.
    private static func length(ofCharacter byte: UInt8) -> Int {
        byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4
    }

    /// Whether the bytes end within a character or within the sequence of a key. An escape byte at the end counts, too.
    private static func endWithinKey(_ bytes: [UInt8]) -> Bool {
        let tail = bytes.suffix(16)
        if let escape = tail.lastIndex(of: 0x1B) {
            let rest = tail[(escape + 1)...]
            guard let kind = rest.first else { return true }
            if kind == UInt8(ascii: "[") || kind == UInt8(ascii: "O"),
                rest.dropFirst().allSatisfy({ (0x20..<0x40).contains($0) })
            {
                return true
            }
        }
        guard let lead = tail.lastIndex(where: { !(0x80..<0xC0).contains($0) }), tail[lead] >= 0xC0 else {
            return false
        }
        return tail.count - (lead - tail.startIndex) < length(ofCharacter: tail[lead])
    }

    /// The key of an escape sequence (ECMA-48), and the number of its bytes. An escape byte alone is the key Esc.
    private static func sequence(_ bytes: ArraySlice<UInt8>) -> (TerminalKey?, Int) {
        let rest = bytes.dropFirst()
        guard let kind = rest.first, kind == UInt8(ascii: "[") || kind == UInt8(ascii: "O") else { return (.escape, 1) }
        let parameters = rest.dropFirst().prefix { (0x20..<0x40).contains($0) }
        let length = 2 + parameters.count
        guard let final = rest.dropFirst(1 + parameters.count).first else { return (nil, length) }
        let key: TerminalKey? =
            switch (Character(Unicode.Scalar(final)), String(decoding: parameters, as: UTF8.self)) {
            case ("A", _): .up
            case ("B", _): .down
            case ("C", _): .right
            case ("D", _): .left
            case ("H", _), ("~", "1"), ("~", "7"): .home
            case ("F", _), ("~", "4"), ("~", "8"): .end
            case ("~", "3"): .delete
            default: nil
            }
        return (key, length + 1)
    }
}
