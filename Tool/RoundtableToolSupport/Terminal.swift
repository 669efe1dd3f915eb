import ArgumentParser
import Foundation
import Roundtable
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Standard output and standard error.
package enum Terminal {
    package static let isInteractive = isatty(STDOUT_FILENO) == 1

    /// Whether the terminal understands control sequences that move the cursor.
    package static var movesCursor: Bool {
        let kind = ProcessInfo.processInfo.environment["TERM"] ?? ""
        return isInteractive && !kind.isEmpty && kind != "dumb"
    }

    /// Whether output is coloured: on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
    package static var showsColours: Bool {
        movesCursor && (ProcessInfo.processInfo.environment["NO_COLOR"] ?? "").isEmpty
    }

    /// The size of the terminal in columns and rows; nil when standard output is none, or its size is not known.
    package static var size: (width: Int, height: Int)? { size(of: STDOUT_FILENO) }

    private static func size(of descriptor: Int32) -> (width: Int, height: Int)? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Whether a user can be asked.
    package static var canAsk: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks a question on standard error, and returns whether the answer is "y" or "yes".
    package static func ask(_ question: String) -> Bool {
        complain("\(question) [y/N]")
        return ["y", "yes"].contains(readLine()?.trimmingCharacters(in: .whitespaces).lowercased())
    }

    /// Writes one line to standard error. On a terminal, a line that is too long continues between words.
    ///
    /// All errors and notices of the tool are written here. A line end can only be one of a name or a text of others, and is shown as a dot,
    /// so that such a name cannot pass for a line of the tool.
    package static func complain(_ line: String) {
        let text = complaint(line, width: size(of: STDERR_FILENO)?.width)
        RunningTime.aside { putOnStandardError(text) }
    }

    package static func complaint(_ line: String, width: Int?) -> String {
        let whole = "roundtable: \(line.visibleLine)"
        return (width.map { TerminalText.wrapped(whole, to: $0, hang: 0) } ?? [whole]).map { $0 + "\n" }.joined()
    }

    /// Writes to standard error as it is.
    package static func putOnStandardError(_ text: String) {
        let bytes = Array(text.utf8)
        // The result is ignored, because there is no other place to report an error.
        _ = bytes.withUnsafeBytes { Self.systemWrite(STDERR_FILENO, $0.baseAddress, $0.count) }
    }

    /// Writes to standard output, immediately and completely. If that fails, it ends the program: without a message if the reader has
    /// closed the pipe, as SIGPIPE would.
    package static func write(_ text: String) {
        do {
            guard try writeIfRead(text) else { exit(0) }
        } catch {
            complain(ToolError.line(for: error))
            exit(1)
        }
    }

    /// Writes to standard output, immediately and completely, for a verb that has something to clean up.
    ///
    /// - throws: `ExitCode.success` when the reader of standard output has closed the pipe, `OutputError` when it cannot be written.
    package static func print(_ text: String) throws {
        guard try writeIfRead(text) else { throw ExitCode.success }
    }

    /// Writes to standard output, immediately and completely, for a verb that decides what follows. It does not use Foundation, which traps on a
    /// closed pipe.
    ///
    /// - returns: false when the reader of standard output has closed the pipe. `SIGPIPE` must be ignored.
    /// - throws: `OutputError` when standard output cannot be written, for example because the disk is full.
    package static func writeIfRead(_ text: String) throws -> Bool {
        try RunningTime.aside { try writeBytesIfRead(text) }
    }

    private static func writeBytesIfRead(_ text: String) throws -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            guard let count = try writePart(rest) else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Writes to standard output what one call of write(2) takes.
    ///
    /// - returns: how many bytes were written: 0 when a signal came first; nil when the reader of standard output has closed the pipe.
    /// - throws: `OutputError` when standard output cannot be written.
    package static func writePart(_ bytes: ArraySlice<UInt8>) throws -> Int? {
        let count = bytes.withUnsafeBytes { Self.systemWrite(STDOUT_FILENO, $0.baseAddress, $0.count) }
        if count == -1, errno == EINTR { return 0 }
        if count == -1, errno == EPIPE { return nil }
        guard count > 0 else { throw OutputError(errno: errno) }
        return count
    }

    // The module is named because `write` is also a method of this type.
    #if canImport(Darwin)
        private static let systemWrite = Darwin.write
    #else
        private static let systemWrite = Glibc.write
    #endif

    /// The command line of this program with other arguments, to be copied from the terminal and run. The program need not be in `PATH`.
    package static func commandLine(_ arguments: String...) -> String { commandLine(arguments) }

    package static func commandLine(_ arguments: [String]) -> String {
        let program = CommandLine.arguments.first ?? "roundtable"
        return ([program.contains("/") ? program : "roundtable"] + arguments).map(\.shellQuoted).joined(separator: " ")
    }

    /// The control sequence that moves up `count` lines, and clears everything from there on.
    package static func erasing(lines count: Int) -> String { count > 0 ? "\u{1B}[\(count)A\u{1B}[J" : "" }

    package static func clear() { write("\u{1B}[H\u{1B}[2J") }
}

/// Standard output cannot be written.
package struct OutputError: Error, CustomStringConvertible {
    package let errno: Int32

    package init(errno: Int32) { self.errno = errno }

    /// What happened, without the advice.
    package var problem: String {
        "standard output cannot be written: \(String(cString: strerror(errno))) (errno \(errno))"
    }
    package var description: String { "\(problem). \(SystemErrorAdvice.next(errno))." }
}
