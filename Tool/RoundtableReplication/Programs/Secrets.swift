import Foundation
import RoundtableToolSupport

/// The texts that must not be shown: all parts of the place of a replica or of a store, except those that are known to hold no credentials.
struct Secrets: Equatable, Sendable {
    /// What is shown instead.
    static let mark = "…"

    /// The longest first, because one may contain another.
    private let texts: [[UInt8]]

    var isEmpty: Bool { texts.isEmpty }

    /// - parameter hidden: the texts as they were given. Their decoded forms are hidden, too, and each of their lines, because a program may
    ///   print one line at a time.
    init(_ hidden: [String]) {
        let forms = hidden.flatMap { text in
            [text, text.removingPercentEncoding, text.replacing("+", with: " ").removingPercentEncoding]
                .compactMap(\.self)
        }
        let lines = forms.flatMap { [$0] + $0.split(whereSeparator: \.isNewline).map(String.init) }
        texts = Set(lines.filter { !["", "true", "false"].contains($0) }).map { Array($0.utf8) }
            .sorted { ($1.count, $0.description) < ($0.count, $1.description) }
    }

    /// A text without the secrets, however they are written in it: as they are, percent-encoded, or quoted as Go, JSON or YAML quote them.
    func redacting(_ text: String) -> String {
        if texts.isEmpty { return text }
        let bytes = Array(text.utf8)
        var result: [UInt8] = []
        var position = 0
        while position < bytes.count {
            if let end = texts.lazy.compactMap({ Self.end(of: $0, in: bytes, at: position) }).first {
                result += Self.mark.utf8
                position = end
            } else {
                result.append(bytes[position])
                position += 1
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// The end of a secret that begins at `start`; nil if there is none. One of up to three bytes counts only as a whole word.
    private static func end(of secret: [UInt8], in text: [UInt8], at start: Int) -> Int? {
        // By the number of bytes of the secret that are found: where that may end.
        var reached = [0: Set([start])]
        for index in secret.indices {
            for position in reached.removeValue(forKey: index) ?? [] {
                for (count, length) in spellings(of: secret[index...], in: text, at: position) {
                    reached[index + count, default: []].insert(position + length)
                }
            }
            if reached.isEmpty { return nil }
        }
        guard let end = reached[secret.count]?.max() else { return nil }
        func isPartOfWord(_ index: Int) -> Bool {
            guard text.indices.contains(index) else { return false }
            let character = Character(UnicodeScalar(text[index]))
            return character.isASCII && (character.isLetter || character.isNumber)
        }
        return secret.count < 4 && (isPartOfWord(start - 1) || isPartOfWord(end)) ? nil : end
    }

    private typealias Spelling = (bytes: Int, length: Int)

    /// The ways in which the next bytes of a secret are written at `position`, which may have been quoted more than once.
    private static func spellings(of secret: ArraySlice<UInt8>, in text: [UInt8], at position: Int) -> [Spelling] {
        guard position < text.count, let byte = secret.first else { return [] }
        var found: [Spelling] = []
        let next = text[position]
        if next == byte || (next == UInt8(ascii: "+") && byte == UInt8(ascii: " ")) { found.append((1, 1)) }
        if next == UInt8(ascii: "%") {
            var digits = position + 1
            while let value = hexadecimal(2, in: text, at: digits) {
                if value == byte { found.append((1, digits + 2 - position)) }
                guard value == UInt8(ascii: "%") else { break }
                digits += 2
            }
        }
        if next == UInt8(ascii: "\\") {
            let run = text[position...].prefix(16).prefix { $0 == UInt8(ascii: "\\") }.count
            if byte == UInt8(ascii: "\\") {
                found += [2, 4, 8].filter { $0 <= run }.map { (1, $0) }
            } else if let (scalar, length) = escaped(in: text, at: position + run) {
                let bytes = Array(String(scalar).utf8)
                if secret.starts(with: bytes) { found.append((bytes.count, run + length)) }
            }
        }
        return found
    }

    /// The character that follows a backslash, and the length of what stands for it.
    private static func escaped(in text: [UInt8], at position: Int) -> (UnicodeScalar, Int)? {
        guard position < text.count else { return nil }
        let simple: [UInt8: UInt8] = [
            UInt8(ascii: "a"): 7, UInt8(ascii: "b"): 8, UInt8(ascii: "t"): 9, UInt8(ascii: "n"): 10,
            UInt8(ascii: "v"): 11, UInt8(ascii: "f"): 12, UInt8(ascii: "r"): 13,
        ]
        let digits = [UInt8(ascii: "x"): 2, UInt8(ascii: "u"): 4, UInt8(ascii: "U"): 8][text[position]]
        if let digits, let scalar = hexadecimal(digits, in: text, at: position + 1).flatMap(UnicodeScalar.init) {
            return (scalar, 1 + digits)
        }
        return (UnicodeScalar(simple[text[position]] ?? text[position]), 1)
    }

    private static func hexadecimal(_ count: Int, in text: [UInt8], at position: Int) -> UInt32? {
        guard position + count <= text.count else { return nil }
        return UInt32(String(decoding: text[position..<position + count], as: UTF8.self), radix: 16)
    }
}

/// What may be shown of the place of a replica or of a store. Everything else is replaced by ``Secrets/mark``.
struct ShownParts {
    /// The parts that are not shown.
    private(set) var hidden: [String] = []

    mutating func hide(_ text: some StringProtocol) { hidden.append(String(text)) }

    /// The host and the port of `user:password@host:port`, with a mark in place of the user; nil if they are not understood.
    mutating func authority(_ text: some StringProtocol) -> String? {
        let text = String(text)
        let at = text.lastIndex(of: "@")
        if let at {
            let user = text[..<at]
            hidden += [String(user)] + user.split(separator: ":", maxSplits: 1).map(String.init)
        }
        let host = at.map { String(text[text.index(after: $0)...]) } ?? text
        let isHost =
            host.wholeMatch(of: /(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/) != nil
            // An access point of S3 takes the place of a bucket.
            || host.wholeMatch(of: /arn:[A-Za-z0-9:_-]+/) != nil
        guard isHost else {
            hide(text)
            return nil
        }
        return at == nil ? host : "\(Secrets.mark)@\(host)"
    }

    /// The value of a parameter; nil if it is hidden.
    mutating func value(of parameter: some StringProtocol, _ text: some StringProtocol) -> String? {
        let value = text.removingPercentEncoding ?? String(text)
        switch parameter.lowercased().filter({ $0 != "-" && $0 != "_" }) {
        case "provider", "region", "locationconstraint", "envauth", "forcepathstyle", "skipverify", "port":
            if value.wholeMatch(of: /[A-Za-z0-9][A-Za-z0-9._-]{0,39}/) != nil { return value }
        case "endpoint", "host":
            guard let match = value.wholeMatch(of: /((?:https?:\/\/)?)([^\/?#]+)\/?(.*)/) else { break }
            let rest = String(match.3)
            hide(rest)
            // A password with a slash ends there.
            if !rest.contains("@"), let host = authority(match.2) { return match.1 + host }
        default: break
        }
        hide(text)
        // A program may print a part of the value: one header, one field of JSON, the password of a URL.
        for part in text.split(whereSeparator: { $0.isWhitespace || "\"':@,;&=?{}".contains($0) }) where part.count >= 6
        {
            hide(part)
        }
        return nil
    }
}
