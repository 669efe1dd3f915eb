import ArgumentParser
import Foundation
import Roundtable

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Standard output and standard error.
enum Terminal {
    static let isInteractive = isatty(STDOUT_FILENO) == 1

    /// Whether there is somebody to ask.
    static var canAsk: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks on standard error. Only "y" and "yes" are a yes.
    static func ask(_ question: String) -> Bool {
        complain("\(question) [y/N]")
        return ["y", "yes"].contains(readLine()?.trimmingCharacters(in: .whitespaces).lowercased())
    }

    /// One line on standard error.
    static func complain(_ line: String) {
        let text = Array("roundtable: \(line.visibleText)\n".utf8)
        // There is nowhere else to complain.
        _ = text.withUnsafeBytes { Self.systemWrite(STDERR_FILENO, $0.baseAddress, $0.count) }
    }

    /// Standard output, at once and whole. Ends the program when it cannot be written: quietly when nobody reads it any more, as
    /// when the signal for that is not ignored.
    static func write(_ text: String) {
        do {
            guard try writeIfRead(text) else { exit(0) }
        } catch {
            complain(ToolError.line(for: error))
            exit(1)
        }
    }

    /// Writes to standard output, at once and whole, for a verb that has something to clean up.
    ///
    /// - throws: `ExitCode.success` when nobody reads standard output any more, `OutputError` when it cannot be written.
    static func print(_ text: String) throws {
        guard try writeIfRead(text) else { throw ExitCode.success }
    }

    /// Writes to standard output, at once and whole, for a verb that decides what follows: Foundation traps on a closed pipe.
    ///
    /// - returns: false when nobody reads standard output any more. `SIGPIPE` must be ignored.
    /// - throws: `OutputError` when it cannot be written, because the disk is full, say.
    static func writeIfRead(_ text: String) throws -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Self.systemWrite(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if count == -1, errno == EINTR { continue }
            if count == -1, errno == EPIPE { return false }
            guard count > 0 else { throw OutputError(errno: errno) }
            rest = rest.dropFirst(count)
        }
        return true
    }

    // By its module, since `write` is a method here.
    #if canImport(Darwin)
        private static let systemWrite = Darwin.write
    #else
        private static let systemWrite = Glibc.write
    #endif

    /// This program with other arguments, to be copied from the terminal and run: it need not be in the `PATH`.
    static func commandLine(_ arguments: String...) -> String { commandLine(arguments) }

    static func commandLine(_ arguments: [String]) -> String {
        let program = CommandLine.arguments.first ?? "roundtable"
        return ([program.contains("/") ? program : "roundtable"] + arguments).map(\.shellQuoted).joined(separator: " ")
    }

    /// What moves up `count` lines, and clears everything from there on.
    static func erasing(lines count: Int) -> String { count > 0 ? "\u{1B}[\(count)A\u{1B}[J" : "" }

    static func clear() { write("\u{1B}[H\u{1B}[2J") }
}

/// Standard output takes no more.
struct OutputError: Error, CustomStringConvertible {
    let errno: Int32

    /// What happened, without what to do next.
    var problem: String { "standard output cannot be written: \(String(cString: strerror(errno))) (errno \(errno))" }
    var description: String { "\(problem). \(SystemErrorAdvice.next(errno))." }
}
