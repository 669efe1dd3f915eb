#if os(Linux)
    import Foundation
    import Glibc

    /// A process that the police has started.
    ///
    /// It has a process group of its own: should the police die, the system continues and hangs up what is stopped.
    package final class LaunchedProcess {
        package enum Exit: Equatable {
            case status(Int32)
            case signal(Int32)
        }

        let pid: Int32
        /// Known when it has been reaped, which nobody does before ``end()``: until then, its pid and its group are its own.
        private(set) var exit: Exit?

        /// - parameter command: the program, which is looked for in `PATH`, and its arguments.
        /// - parameter outputToErrors: its standard output is the caller's standard error.
        init(_ command: [String], environment: [String: String], outputToErrors: Bool) throws {
            guard let program = command.first else { throw SuspensionPoliceError("no command to launch") }
            var actions = posix_spawn_file_actions_t()
            posix_spawn_file_actions_init(&actions)
            defer { posix_spawn_file_actions_destroy(&actions) }
            if outputToErrors { posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO) }
            var attributes = posix_spawnattr_t()
            posix_spawnattr_init(&attributes)
            defer { posix_spawnattr_destroy(&attributes) }
            // Signals that the police ignores are not to be ignored by others.
            var defaults = sigset_t()
            sigfillset(&defaults)
            posix_spawnattr_setsigdefault(&attributes, &defaults)
            var mask = sigset_t()
            sigemptyset(&mask)
            posix_spawnattr_setsigmask(&attributes, &mask)
            let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
            posix_spawnattr_setflags(&attributes, Int16(flags))
            posix_spawnattr_setpgroup(&attributes, 0)

            let merged = ProcessInfo.processInfo.environment.merging(environment) { $1 }
            var argv = command.map { strdup($0) } + [nil]
            var envp = merged.map { strdup("\($0)=\($1)") } + [nil]
            defer { for pointer in argv + envp { free(pointer) } }
            var pid: pid_t = 0
            let code = posix_spawnp(&pid, program, &actions, &attributes, &argv, &envp)
            guard code == 0 else { throw SuspensionPoliceError("cannot start \(program)", errno: code) }
            self.pid = pid
        }

        var hasEnded: Bool { exit != nil || ThreadStates(of: pid).isGone }

        /// It has been killed.
        func waitForEnd() {
            var info = siginfo_t()
            while exit == nil, waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT) == -1, errno == EINTR {}
        }

        /// Kills it, its descendants and its group, in whatever state they are, and reaps it.
        func end() {
            guard exit == nil else { return }
            for member in ProcessTree(root: pid).members where member.pid != pid { member.signal(SIGKILL) }
            kill(-pid, SIGKILL)
            var status: Int32 = 0
            while waitpid(pid, &status, 0) == -1, errno == EINTR {}
            let number = status & 0x7F
            exit = number == 0 ? .status((status >> 8) & 0xFF) : .signal(number)
        }
    }

    extension SuspensionPolice {
        /// Starts a program, to be put before the police, with its standard input and output those of the caller.
        ///
        /// - parameter command: the program, looked for in `PATH`, and its arguments.
        /// - parameter environment: what is added to the caller's.
        /// - parameter outputToErrors: its standard output is the caller's standard error.
        /// - returns: its pid.
        public func launch(
            _ command: [String],
            environment: [String: String] = [:],
            outputToErrors: Bool = false
        ) throws -> Int32 {
            let process = try LaunchedProcess(
                command,
                environment: environment.merging(self.environment) { $1 },
                outputToErrors: outputToErrors
            )
            launched[process.pid] = process
            return process.pid
        }

        /// Asks a process that was launched to end, and kills it when it has not within `patience`; then whatever is left of its
        /// descendants and its group.
        public func terminate(_ pid: Int32, patience: Duration = .seconds(5)) {
            guard let process = launched[pid], process.exit == nil else { return }
            let descendants = ProcessTree(root: pid).members.filter { $0.pid != pid }
            kill(pid, SIGTERM)
            kill(pid, SIGCONT)
            wait(until: .now + patience) { process.hasEnded }
            process.end()
            for member in descendants { member.signal(SIGKILL) }
        }

        /// Whether a process that was launched has ended.
        package func hasEnded(_ pid: Int32) -> Bool { launched[pid]?.hasEnded ?? false }

        /// How a process ended that was launched, once it is terminated.
        package func exit(of pid: Int32) -> LaunchedProcess.Exit? { launched[pid]?.exit }
    }
#endif
