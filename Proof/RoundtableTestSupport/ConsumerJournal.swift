import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A file of all changes that a consumer of the history received and acknowledged. It survives `kill -9`, so several processes can
/// write it one after the other.
package enum ConsumerJournal {
    package enum Line: Equatable {
        /// A process has begun to consume.
        case begin
        /// The consumer received the change of a row of the table `entry`.
        case change(id: Int64, author: String?)
        /// All changes received so far are acknowledged.
        case acknowledged
    }

    /// Appends to the file, with one system call.
    package static func append(_ lines: [Line], to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o666)
        try check(descriptor, "open \(path)")
        defer { close(descriptor) }
        let text = Array(lines.map { form(of: $0) + "\n" }.joined().utf8)
        try check(Int32(truncatingIfNeeded: write(descriptor, text, text.count)), "write \(path)")
    }

    /// Reads the file. A last line that its writer did not finish is left out.
    package static func read(_ path: String) throws -> [Line] {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        let text = try String(contentsOfFile: path, encoding: .utf8)
        return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { line in
            let words = line.split(separator: " ", maxSplits: 2)
            switch words[0] {
            case "begin": return .begin
            case "acknowledged": return .acknowledged
            default: return .change(id: Int64(words[1]) ?? -1, author: words.count > 2 ? String(words[2]) : nil)
            }
        }
    }

    private static func form(of line: Line) -> String {
        switch line {
        case .begin: "begin"
        case .change(let id, let author): "change \(id)\(author.map { " \($0)" } ?? "")"
        case .acknowledged: "acknowledged"
        }
    }
}
