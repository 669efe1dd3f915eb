import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Starts a program. The program ignores no signal, and blocks only the signals that a test asks for.
///
/// A child inherits the signal mask of the thread that spawns it, and the threads of libdispatch block nearly all signals. Such a
/// child would receive neither the signal of `kill PID` nor that of Ctrl-Z.
///
/// This type uses `posix_spawn` instead of Foundation's `Process`, which resets neither the mask nor ignored signals. `Process` also
/// reaps the child, so that another process may have its pid when a signal is sent to it. A package for spawning would be one more
/// dependency of every user of the library.
package struct ProgramLaunch {
    /// The path of the program, or a name that is looked up in `PATH`.
    package var program: String
    package var arguments: [String] = []
    package var environment = ProcessInfo.processInfo.environment
    /// The caller's descriptors that the child receives, by their numbers in the child. The child also inherits all other descriptors
    /// that `exec` does not close.
    package var descriptors: [Int32: Int32] = [:]
    /// The file that receives the standard error.
    package var errorOutput: URL?
    /// Whether the child has its own process group. If the caller dies while such a child is stopped, the system sends SIGHUP and
    /// SIGCONT to the child.
    package var hasOwnGroup = true
    /// The signals that are blocked when the child starts.
    package var blockedSignals: Set<Int32> = []

    package init(_ program: String, _ arguments: [String] = []) {
        self.program = program
        self.arguments = arguments
    }

    /// - returns: the pid of the child, which the caller must reap, or the errno of `posix_spawnp(3)`.
    package func start() -> Result<Int32, ProgramLaunchError> {
        #if canImport(Darwin)
            var actions: Darwin.posix_spawn_file_actions_t?
            var attributes: Darwin.posix_spawnattr_t?
        #else
            var actions = posix_spawn_file_actions_t()
            var attributes = posix_spawnattr_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (number, descriptor) in descriptors {
            posix_spawn_file_actions_adddup2(&actions, descriptor, number)
        }
        if let errorOutput {
            let flags = O_WRONLY | O_CREAT | O_APPEND
            posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errorOutput.path, flags, 0o666)
        }
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigdefault(&attributes, &all)
        var blocked = sigset_t()
        sigemptyset(&blocked)
        for signal in blockedSignals { sigaddset(&blocked, signal) }
        posix_spawnattr_setsigmask(&attributes, &blocked)
        if hasOwnGroup {
            flags |= POSIX_SPAWN_SETPGROUP
            posix_spawnattr_setpgroup(&attributes, 0)
        }
        posix_spawnattr_setflags(&attributes, Int16(flags))

        var argv = ([program] + arguments).map { strdup($0) } + [nil]
        var envp = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for pointer in argv + envp { free(pointer) } }
        var pid: pid_t = 0
        let code = posix_spawnp(&pid, program, &actions, &attributes, &argv, &envp)
        return code == 0 ? .success(pid) : .failure(ProgramLaunchError(program: program, errno: code))
    }
}

package struct ProgramLaunchError: Error, CustomStringConvertible {
    package let program: String
    package let errno: Int32
    package var description: String { "cannot start \(program): \(String(cString: strerror(errno))) (errno \(errno))" }
}

/// How a process ended.
package enum ProgramExit: Equatable, Sendable {
    case status(Int32)
    case signal(Int32)
    /// The system has reaped the process, because this process ignores SIGCHLD. How it ended is not known.
    case unknown

    /// - parameter status: the status that `waitpid(2)` returned.
    package init(waitStatus status: Int32) {
        let number = status & 0x7F
        self = number == 0 ? .status((status >> 8) & 0xFF) : .signal(number)
    }

    /// Reaps a child of this process.
    ///
    /// - parameter waits: whether to wait until the child has ended.
    /// - returns: how the child ended; nil while it runs.
    package static func reap(_ pid: Int32, waits: Bool) -> ProgramExit? {
        var status: Int32 = 0
        while true {
            switch waitpid(pid, &status, waits ? 0 : WNOHANG) {
            case pid: return ProgramExit(waitStatus: status)
            case 0: return nil
            default: if errno != EINTR { return .unknown }
            }
        }
    }

    /// Whether a child has ended, which is not reaped: its pid stays its own.
    ///
    /// - parameter waits: whether to wait until the child has ended.
    @discardableResult
    package static func hasEnded(_ pid: Int32, waits: Bool) -> Bool {
        while true {
            var info = siginfo_t()
            if waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT | (waits ? 0 : WNOHANG)) == 0 {
                return info.si_signo == SIGCHLD
            }
            // It is no child any more if SIGCHLD is ignored.
            if errno != EINTR { return true }
        }
    }
}
