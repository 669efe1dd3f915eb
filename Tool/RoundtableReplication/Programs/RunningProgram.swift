import Foundation
import RoundtableKernel
import RoundtableProcesses
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A program that this process has started, with the lines that it writes to standard output and standard error.
final class RunningProgram: @unchecked Sendable {
    // @unchecked: `state` is guarded by `lock`; the rest is constant.

    private struct State {
        var lines: [String] = []
        var isAtEnd = false
        var exit: ProgramExit?
    }

    let pid: Int32
    private let onLine: @Sendable () -> Void
    private let lock = NSLock()
    private var state = State()

    /// - Parameters:
    ///   - configuration: what the program reads from ``ProgramRun/configurationDescriptor``.
    ///   - folders: what the program reaches by ``ProgramRun/path(of:at:)``.
    ///   - isBound: whether the program gets SIGTERM when the calling thread, or this process, dies. Only on Linux, and if `setpriv` is
    ///     installed.
    ///   - onLine: called on another thread when lines have come, and when the output has ended.
    /// - throws: ``ToolError`` when the program cannot be started.
    init(
        _ program: String,
        _ arguments: [String],
        environment: [String: String] = [:],
        configuration: String? = nil,
        folders: [OpenFolder] = [],
        isBound: Bool = false,
        onLine: @escaping @Sendable () -> Void = {}
    ) throws {
        let text = try configuration.map { try ProgramPipe.filled(with: $0) }
        defer { if let text { close(text) } }
        var launch = isBound ? ProgramLaunch.bound(program, arguments) : ProgramLaunch(program, arguments)
        launch.environment.merge(environment) { $1 }
        let inherited = try ProgramRun.pass(folders, to: &launch)
        defer { for folder in inherited { close(folder) } }
        let ends = try ProgramPipe.make()
        launch.descriptors[STDOUT_FILENO] = ends.writing
        launch.descriptors[STDERR_FILENO] = ends.writing
        launch.descriptors[ProgramRun.configurationDescriptor] = text
        let result = launch.start()
        close(ends.writing)
        switch result {
        case .success(let pid): self.pid = pid
        case .failure(let error):
            close(ends.reading)
            throw ToolError("\(error)")
        }
        self.onLine = onLine
        let source = ends.reading
        DetachedThread.startOrQueue { [self] in read(from: source) }
    }

    /// The lines since the last call.
    func takeLines() -> [String] {
        lock.withLock {
            defer { state.lines = [] }
            return state.lines
        }
    }

    /// Reaps the program if it has ended.
    private var exitIfAny: ProgramExit? {
        lock.withLock {
            if let exit = state.exit { return exit }
            state.exit = ProgramExit.reap(pid, waits: false)
            return state.exit
        }
    }

    /// Waits until the program has ended and its output was read.
    ///
    /// - parameter deadline: 0: does not wait for the program.
    func waitForExit(until deadline: Nanoseconds) -> ProgramExit? {
        while true {
            // A child of the program may keep the pipe open, so the end of the output is awaited for a moment only.
            if let exit = exitIfAny {
                let end = MonotonicClock.now + 100_000_000
                while !lock.withLock({ state.isAtEnd }), MonotonicClock.now < end { MonotonicClock.sleep(1_000_000) }
                return exit
            }
            guard MonotonicClock.now < deadline else { return nil }
            MonotonicClock.sleep(2_000_000)
        }
    }

    /// Sends a signal, unless the program was reaped.
    func signal(_ number: Int32) {
        lock.withLock {
            if state.exit == nil { _ = systemKill(pid, number) }
        }
    }

    /// Kills and reaps the program.
    func kill() {
        signal(SIGKILL)
        // This wait ends, because SIGKILL also ends a stopped process.
        _ = waitForExit(until: .max)
    }

    private func read(from descriptor: Int32) {
        var rest: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16384)
        while true {
            let count = systemRead(descriptor, &buffer, buffer.count)
            if count == -1, errno == EINTR { continue }
            guard count > 0 else { break }
            rest += buffer[..<count]
            append(&rest, isEnd: false)
        }
        close(descriptor)
        append(&rest, isEnd: true)
    }

    private func append(_ bytes: inout [UInt8], isEnd: Bool) {
        var lines: [String] = []
        while let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
            lines.append(String(decoding: bytes[..<end], as: UTF8.self))
            bytes.removeSubrange(...end)
        }
        if isEnd, !bytes.isEmpty { lines.append(String(decoding: bytes, as: UTF8.self)) }
        lock.withLock {
            // Nobody reads the oldest lines of a program that writes faster than they are taken.
            state.lines = (state.lines + lines).suffix(1000)
            state.isAtEnd = isEnd
        }
        onLine()
    }
}

#if canImport(Darwin)
    private let systemKill = Darwin.kill
    private let systemRead = Darwin.read
#else
    private let systemKill = Glibc.kill
    private let systemRead = Glibc.read
#endif

extension ProgramLaunch {
    /// A program that gets SIGTERM when the thread that starts it, or this process, dies. Only on Linux, and if `setpriv` is installed.
    static func bound(_ program: String, _ arguments: [String]) -> ProgramLaunch {
        #if os(Linux)
            if access("/usr/bin/setpriv", X_OK) == 0 {
                return ProgramLaunch("/usr/bin/setpriv", ["--pdeathsig", "TERM", "--", program] + arguments)
            }
        #endif
        return ProgramLaunch(program, arguments)
    }
}
