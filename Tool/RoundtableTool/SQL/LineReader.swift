import Foundation
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Reads lines from a terminal, with `LineEditor`. The terminal has its own settings except while a line is read.
final class LineReader {
    private var editor: LineEditor
    private let original: termios?
    private let signals: EndingSignals
    /// Keys that were typed, or pasted, behind the end of the last line.
    private var waiting: [TerminalKey] = []

    init(history: [String], complete: @escaping (String) -> [String]) {
        editor = LineEditor(history: history, complete: complete)
        var settings = termios()
        let isUsable = Terminal.movesCursor && tcgetattr(STDIN_FILENO, &settings) == 0
        original = isUsable ? settings : nil
        let restored = original
        signals = EndingSignals { signal in
            if var restored { tcsetattr(STDIN_FILENO, TCSANOW, &restored) }
            exit(128 + signal)
        }
    }

    var history: [String] { editor.history }
    /// Whether the last line was given up (Ctrl-C).
    private(set) var wasCancelled = false

    /// - returns: nil when there are no more lines.
    func read(_ prompt: String) -> String? {
        wasCancelled = false
        guard original != nil else {
            Terminal.write(prompt)
            return readLine()
        }
        setRaw()
        defer { restore() }
        while true {
            draw(prompt)
            if waiting.isEmpty {
                guard let keys = nextKeys() else { return nil }
                waiting = keys
            }
            guard !waiting.isEmpty else { continue }
            switch editor.handle(waiting.removeFirst()) {
            case .editing: break
            case .line(let line):
                Terminal.write("\r\n")
                return line
            case .cancelled:
                Terminal.write("^C\r\n")
                waiting = []
                wasCancelled = true
                return ""
            case .end:
                Terminal.write("\r\n")
                return nil
            case .choices(let words):
                Terminal.write("\r\n" + Self.listed(words, in: width).map { $0 + "\r\n" }.joined())
            case .clear: Terminal.clear()
            case .stop:
                restore()
                Terminal.write("\r\n")
                StopSignal.stopProcess()
                setRaw()
            }
        }
    }

    private var width: Int { max(10, Terminal.width ?? 80) }

    private func setRaw() {
        guard var raw = original else { return }
        raw.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG)
        raw.c_iflag &= ~tcflag_t(ICRNL)
        tcsetattr(STDIN_FILENO, TCSANOW, &raw)
    }

    private func restore() {
        guard var settings = original else { return }
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    /// The lines of words that complete a word. They are names of others.
    static func listed(_ words: [String], in width: Int) -> [String] {
        words.joined(separator: "  ").visibleLine.wrapped(to: width)
    }

    /// Draws the line in one row.
    private func draw(_ prompt: String) {
        let row = editor.row(columns: max(4, width - prompt.displayWidth - 1))
        let column = prompt.displayWidth + row.cursor
        let move = column > 0 ? "\u{1B}[\(column)C" : ""
        Terminal.write("\r\(prompt)\(row.text)\u{1B}[K\r\(move)")
    }

    /// - returns: nil when the terminal has gone away.
    private func nextKeys() -> [TerminalKey]? {
        guard let bytes = nextBytes() else { return nil }
        return TerminalKey.keys(of: bytes) {
            var request = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            return poll(&request, 1, TerminalKey.patience) > 0 ? nextBytes() ?? [] : []
        }
    }

    /// - returns: nil when the terminal has gone away.
    private func nextBytes() -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = Self.systemRead(STDIN_FILENO, &buffer, buffer.count)
        if count == -1, errno == EINTR || errno == EAGAIN { return [] }
        return count > 0 ? Array(buffer[..<count]) : nil
    }

    #if canImport(Darwin)
        private static let systemRead = Darwin.read
    #else
        private static let systemRead = Glibc.read
    #endif
}
