import Foundation

/// Standard output and standard error.
enum Terminal {
    static let isInteractive = isatty(STDOUT_FILENO) == 1

    /// One line on standard error.
    static func complain(_ line: String) {
        FileHandle.standardError.write(Data("roundtable: \(line)\n".utf8))
    }

    /// Standard output, at once and whole.
    static func write(_ text: String) {
        FileHandle.standardOutput.write(Data(text.utf8))
    }

    /// Moves up `count` lines, and clears everything from there on.
    static func erase(lines count: Int) {
        if count > 0 { write("\u{1B}[\(count)A\u{1B}[J") }
    }

    static func clear() { write("\u{1B}[H\u{1B}[2J") }
}
