import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A process that a test started: its standard input and output are the two directions of one socket, its standard error
/// is a file.
///
/// `posix_spawn` and not Foundation's `Process`: a test wants the pid to be a zombie until it reaps it, no descriptor of
/// one child to leak into the next, and no run loop.
package final class ChildProcess {
    package enum Exit: Equatable {
        case status(Int32)
        case signal(Int32)
    }

    package let pid: Int32
    /// The test's end of the socket.
    let socket: Int32
    private let errorOutput: URL
    private var exit: Exit?
    private var isSocketOpen = true

    /// - parameter errorOutput: the file that takes the standard error.
    package init(
        executable: URL,
        arguments: [String] = [],
        environment: [String: String] = [:],
        errorOutput: URL
    ) throws {
        var ends: [Int32] = [-1, -1]
        #if canImport(Darwin)
            try check(socketpair(AF_UNIX, SOCK_STREAM, 0, &ends), "socketpair")
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            var quiet: Int32 = 1
            setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &quiet, socklen_t(MemoryLayout<Int32>.size))
            var actions: Darwin.posix_spawn_file_actions_t?
            var attributes: Darwin.posix_spawnattr_t?
        #else
            let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
            try check(socketpair(AF_UNIX, kind, 0, &ends), "socketpair")
            var actions = posix_spawn_file_actions_t()
            var attributes = posix_spawnattr_t()
        #endif
        defer { close(ends[1]) }
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], 0)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_addopen(&actions, 2, errorOutput.path, O_WRONLY | O_CREAT | O_APPEND, 0o666)
        // A process group of its own: should the test die, the system continues and hangs up a stopped child of it.
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setpgroup(&attributes, 0)
        // The threads that tests run in block signals; a child is to get them.
        var mask = sigset_t()
        sigemptyset(&mask)
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK))

        var merged = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        // SQLite's shell refuses to run with another library than its own (`make test-sqlcipher`).
        if executable.lastPathComponent == "sqlite3" { merged["LD_LIBRARY_PATH"] = nil }
        var argv = ([executable.path] + arguments).map { strdup($0) } + [nil]
        var envp = merged.map { strdup("\($0)=\($1)") } + [nil]
        defer { for pointer in argv + envp { free(pointer) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, executable.path, &actions, &attributes, &argv, &envp)
        guard code == 0 else {
            close(ends[0])
            throw TestKitError("cannot start \(executable.path): \(String(cString: strerror(code)))")
        }
        self.pid = pid
        self.socket = ends[0]
        self.errorOutput = errorOutput
    }

    deinit { end() }

    // MARK: Signals

    /// Does nothing to a process that has been reaped.
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

    /// How it ended, if it has; reaps it.
    private func exitIfAny() -> Exit? {
        if let exit { return exit }
        var status: Int32 = 0
        guard waitpid(pid, &status, WNOHANG) == pid else { return nil }
        let number = status & 0x7F
        exit = number == 0 ? .status((status >> 8) & 0xFF) : .signal(number)
        return exit
    }

    /// What it wrote to its standard error.
    package var errorText: String { (try? String(contentsOf: errorOutput, encoding: .utf8)) ?? "" }

    /// No more input comes.
    package func closeInput() { shutdown(socket, Int32(SHUT_WR)) }

    /// Ends and reaps the process, whatever state it is in.
    package func end() {
        if exitIfAny() == nil {
            kill(pid, SIGKILL)
            var status: Int32 = 0
            // SIGKILL also ends a stopped process: this wait has an end.
            while waitpid(pid, &status, 0) == -1, errno == EINTR {}
            exit = .signal(SIGKILL)
        }
        if isSocketOpen {
            close(socket)
            isSocketOpen = false
        }
    }
}

/// What went wrong with a test's own machinery.
package struct TestKitError: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

func check(_ result: Int32, _ call: String) throws {
    if result == -1 { throw TestKitError("\(call): \(String(cString: strerror(errno)))") }
}
