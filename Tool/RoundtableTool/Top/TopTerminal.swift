import ArgumentParser
import Foundation
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The terminal of the live view: raw keys, the alternate screen, and the signals that concern it. It is confined to the main thread.
///
/// A process has one object at a time, because signal handlers belong to the process.
final class TopTerminal {
    enum Event: Equatable {
        case keys([TerminalKey])
        case resized
        /// Ctrl-Z, or `kill -TSTP`.
        case stop
        /// The process was stopped by a signal that cannot be handled, and continues.
        case continued
        /// A signal that ends the program.
        case end(Int32)
        /// The terminal has gone away.
        case hangUp
    }

    /// The settings before, which `leave` restores.
    private let original: termios
    private let pipe: (reader: Int32, writer: Int32)
    private var actions: [(Int32, sigaction)] = []
    private let output = PatientOutput()
    /// Signals that arrived while the terminal took no text.
    private var pending: [Event] = []
    private var isEntered = false

    private static let ending = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

    /// - throws: `ToolError` when standard input is no terminal, or no pipe can be created.
    init() throws {
        var settings = termios()
        try Self.check(tcgetattr(STDIN_FILENO, &settings))
        original = settings
        var ends: [Int32] = [-1, -1]
        try Self.check(Self.makePipe(&ends))
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        pipe = (ends[0], ends[1])
        signalPipe = ends[1]
        let handled = Self.ending.filter { !System.ignoresSignal($0) } + [SIGWINCH, SIGCONT, SIGTSTP]
        for signal in handled { actions.append((signal, Self.handle(signal))) }
    }

    /// Restores the terminal and the signals.
    func close() {
        leave()
        for (signal, action) in actions {
            var action = action
            sigaction(signal, &action, nil)
        }
        actions = []
        signalPipe = -1
        output.close()
        for end in [pipe.reader, pipe.writer] { systemClose(end) }
    }

    private static func check(_ result: Int32) throws {
        guard result == -1 else { return }
        let reason = "\(String(cString: strerror(errno))) (errno \(errno))"
        throw ToolError("the terminal cannot be used: \(reason). Try --once, or pipe the output into a file.")
    }

    private static func makePipe(_ ends: inout [Int32]) -> Int32 {
        #if canImport(Darwin)
            Darwin.pipe(&ends)
        #else
            Glibc.pipe(&ends)
        #endif
    }

    /// - returns: the action before.
    private static func handle(_ signal: Int32) -> sigaction {
        var (action, before) = (sigaction(), sigaction())
        let handler: @convention(c) (Int32) -> Void = { signal in
            // A handler may call only functions that are safe there, and write(2) is one.
            let saved = errno
            var byte = UInt8(truncatingIfNeeded: signal)
            _ = write(signalPipe, &byte, 1)
            errno = saved
        }
        #if canImport(Darwin)
            action.__sigaction_u.__sa_handler = handler
        #else
            action.__sigaction_handler.sa_handler = handler
        #endif
        action.sa_flags = Int32(SA_RESTART)
        sigaction(signal, &action, &before)
        return before
    }

    // MARK: The screen

    /// Switches to the alternate screen, hides the cursor, and reads keys as they are pressed. Signals of Ctrl-C and Ctrl-Z stay.
    func enter() throws {
        var raw = original
        raw.c_lflag &= ~tcflag_t(ICANON | ECHO)
        try Self.check(tcsetattr(STDIN_FILENO, TCSANOW, &raw))
        // Where the screen was not left, as before a signal that cannot be handled, it is still the alternate one.
        try print((isEntered ? "" : "\u{1B}[?1049h") + "\u{1B}[?25l\u{1B}[?7l")
        isEntered = true
    }

    /// Restores the screen, the cursor and the settings as they were before.
    func leave() {
        guard isEntered else { return }
        isEntered = false
        // First, because the text may not be taken.
        var settings = original
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        // Nothing more can be done for a terminal that is gone, or that nobody reads.
        var rest = Array("\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l".utf8)[...]
        _ = try? output.write(&rest, until: MonotonicClock.now + Self.patience)
    }

    /// How long to wait for a terminal to take the text that restores it.
    private static let patience: Nanoseconds = 500_000_000

    /// Writes to the terminal, immediately, and completely unless the program is to be stopped.
    ///
    /// - throws: `ExitCode` when a signal ends the program, also while nobody reads what the terminal shows; `OutputError`.
    private func print(_ text: String) throws {
        var rest = Array(text.utf8)[...]
        while try !output.write(&rest, orUntilReadable: pipe.reader) {
            let events = signals()
            pending += events
            for case .end(let signal) in events { throw ExitCode(128 + signal) }
            // The screen is drawn again after the stop.
            if events.contains(.stop) { return }
        }
    }

    /// Draws a screen in place of the one before.
    func draw(_ lines: [StyledText], width: Int, isColoured: Bool) throws {
        // Each line is cleared behind its text, so that the screen does not flicker. Behind a line that fills the screen, the cursor is
        // still on its last character.
        let text = lines.map { line in
            line.text(isColoured: isColoured) + (line.width < width ? "\u{1B}[K" : "")
        }.joined(separator: "\r\n")
        try print("\u{1B}[H\(text)\u{1B}[J")
    }

    /// Stops the process as Ctrl-Z does without a handler, and returns when it continues.
    func stop() throws {
        leave()
        StopSignal.stopProcess()
        try enter()
    }

    // MARK: Events

    /// Waits for keys and signals until `deadline`, in ns of the monotonic clock.
    ///
    /// - returns: empty when the deadline has passed.
    func wait(until deadline: Nanoseconds) -> [Event] {
        if !pending.isEmpty {
            defer { pending = [] }
            return pending
        }
        var requests = [
            pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
            pollfd(fd: pipe.reader, events: Int16(POLLIN), revents: 0),
        ]
        let left = deadline.subtractingSaturating(MonotonicClock.now)
        let count = poll(&requests, 2, Int32(clamping: (left + 999_999) / 1_000_000))
        guard count > 0 else { return [] }
        var events: [Event] = []
        if requests[1].revents != 0 { events += signals() }
        if requests[0].revents != 0 {
            let typed = bytes(of: STDIN_FILENO)
            events.append(typed.isEmpty ? .hangUp : .keys(keys(of: typed)))
        }
        return events
    }

    private func signals() -> [Event] {
        bytes(of: pipe.reader).map { byte in
            switch Int32(byte) {
            case SIGWINCH: .resized
            case SIGTSTP: .stop
            case SIGCONT: .continued
            case let signal: .end(signal)
            }
        }
    }

    private func keys(of typed: [UInt8]) -> [TerminalKey] {
        TerminalKey.keys(of: typed) {
            var request = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            return poll(&request, 1, TerminalKey.patience) > 0 ? bytes(of: STDIN_FILENO) : []
        }
    }

    private func bytes(of descriptor: Int32) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = read(descriptor, &buffer, buffer.count)
        return Array(buffer.prefix(max(0, count)))
    }
}

/// Where the handlers of `TopTerminal` write the numbers of signals; -1: nowhere. Only the main thread changes it, and handlers read it.
nonisolated(unsafe) private var signalPipe: Int32 = -1
