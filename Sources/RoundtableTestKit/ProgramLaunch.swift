import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// How a program is started: with no signal ignored, and none blocked unless a test asks for it.
///
/// A child inherits the signal mask of the thread that spawns it, and libdispatch's threads block nearly everything: a child of theirs would
/// see neither `kill PID` nor Ctrl-Z.
///
/// `posix_spawn` and not Foundation's `Process`, which resets neither mask nor ignored signals, and reaps the child: its pid may be another's
/// before a signal is sent to it. A package for spawning would be one more for every user of the library to fetch.
package struct ProgramLaunch {
    /// A path; or a name, which is looked for in `PATH`.
    package var program: String
    package var arguments: [String] = []
    package var environment = ProcessInfo.processInfo.environment
    /// What the child has as its descriptors, by their numbers; all others of the caller's that are not closed by `exec` are inherited.
    package var descriptors: [Int32: Int32] = [:]
    /// The file that takes the standard error.
    package var errorOutput: URL?
    /// Should the caller die, the system continues and hangs up a stopped child in a process group of its own.
    package var hasOwnGroup = true
    /// What the child begins with.
    package var blockedSignals: Set<Int32> = []

    package init(_ program: String, _ arguments: [String] = []) {
        self.program = program
        self.arguments = arguments
    }

    /// - returns: the pid, which the caller reaps; or the errno of `posix_spawnp(3)`.
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

/// How a process has ended.
package enum ProgramExit: Equatable, Sendable {
    case status(Int32)
    case signal(Int32)

    /// - parameter status: as `waitpid(2)` tells it.
    package init(waitStatus status: Int32) {
        let number = status & 0x7F
        self = number == 0 ? .status((status >> 8) & 0xFF) : .signal(number)
    }
}
