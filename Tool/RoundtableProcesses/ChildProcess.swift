import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A process that a test started. Its standard input and output are the two directions of one socket, and its standard error is a
/// file.
///
/// A process that has ended stays a zombie until the test reaps it. No descriptor of one child leaks into the next.
package final class ChildProcess {
    package typealias Exit = ProgramExit

    package let pid: Int32
    /// The test's end of the socket.
    package let socket: Int32
    private let errorOutput: URL
    private var exit: Exit?
    private var isSocketOpen = true

    /// - parameter errorOutput: the file that receives the standard error.
    /// - parameter outputToErrors: whether that file also receives the standard output, in place of the socket.
    /// - parameter blockedSignals: the signals that are blocked when the process starts, as in a process spawned by a libdispatch thread.
    package init(
        executable: URL,
        arguments: [String] = [],
        environment: [String: String] = [:],
        blockedSignals: Set<Int32> = [],
        errorOutput: URL,
        outputToErrors: Bool = false
    ) throws {
        var ends: [Int32] = [-1, -1]
        #if canImport(Darwin)
            try check(socketpair(AF_UNIX, SOCK_STREAM, 0, &ends), "socketpair")
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            var quiet: Int32 = 1
            setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &quiet, socklen_t(MemoryLayout<Int32>.size))
        #else
            let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
            try check(socketpair(AF_UNIX, kind, 0, &ends), "socketpair")
        #endif
        defer { close(ends[1]) }
        var launch = ProgramLaunch(executable.path, arguments)
        launch.descriptors = [STDIN_FILENO: ends[1], STDOUT_FILENO: ends[1]]
        launch.errorOutput = errorOutput
        if outputToErrors {
            let file = open(errorOutput.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o666)
            try check(file, "open \(errorOutput.path)")
            launch.descriptors[STDOUT_FILENO] = file
        }
        defer { if outputToErrors, let file = launch.descriptors[STDOUT_FILENO] { close(file) } }
        launch.blockedSignals = blockedSignals
        launch.environment.merge(environment) { $1 }
        // SQLite's shell refuses to run with a library other than its own (`make test-sqlcipher`).
        if executable.lastPathComponent == "sqlite3" { launch.environment["LD_LIBRARY_PATH"] = nil }
        switch launch.start() {
        case .success(let pid): self.pid = pid
        case .failure(let error):
            close(ends[0])
            throw TestKitError("\(error)")
        }
        self.socket = ends[0]
        self.errorOutput = errorOutput
    }

    deinit { end() }

    // MARK: Signals

    /// Sends a signal. It does nothing if the process has been reaped.
    package func signal(_ number: Int32) {
        guard exitIfAny() == nil else { return }
        kill(pid, number)
    }

    /// Sends SIGSTOP, and returns when the process has stopped.
    package func stop() throws {
        signal(SIGSTOP)
        try eventually("process \(pid) stops") { ProcessTable.entry(self.pid)?.isStopped == true }
    }

    package func resume() { signal(SIGCONT) }

    /// Sends SIGKILL, and returns when the process has ended and is reaped.
    package func killAndReap() throws {
        signal(SIGKILL)
        _ = try waitForExit()
    }

    // MARK: End

    package var isRunning: Bool { exitIfAny() == nil }

    package func waitForExit(within timeout: Duration = .seconds(10)) throws -> Exit {
        try eventually("process \(pid) ends", within: timeout) { self.exitIfAny() != nil }
        return exit!
    }

    /// Reaps the process if it has ended, and returns how it ended; nil while it runs.
    private func exitIfAny() -> Exit? {
        if let exit { return exit }
        exit = Exit.reap(pid, waits: false)
        return exit
    }

    /// The text that the process wrote to its standard error, also if some of it is no UTF-8.
    package var errorText: String { String(decoding: (try? Data(contentsOf: errorOutput)) ?? Data(), as: UTF8.self) }

    /// Ends the standard input of the process.
    package func closeInput() { shutdown(socket, Int32(SHUT_WR)) }

    /// Kills and reaps the process, whatever its state, and closes the socket.
    package func end() {
        if exitIfAny() == nil {
            kill(pid, SIGKILL)
            // This wait ends, because SIGKILL also ends a stopped process.
            exit = Exit.reap(pid, waits: true)
        }
        if isSocketOpen {
            close(socket)
            isSocketOpen = false
        }
    }
}

/// A failure of the test kit itself.
package struct TestKitError: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

package func check(_ result: Int32, _ call: String) throws {
    if result == -1 { throw TestKitError("\(call): \(String(cString: strerror(errno)))") }
}
