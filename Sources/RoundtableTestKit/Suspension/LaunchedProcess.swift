#if os(Linux)
    import Foundation
    import Glibc

    /// A process that the police has started.
    ///
    /// It has a process group of its own: should the police die, the system continues and hangs up what is stopped.
    final class LaunchedProcess {
        enum Exit: Equatable {
            case status(Int32)
            case signal(Int32)
        }

        let pid: Int32
        private(set) var exit: Exit?

        /// - parameter command: the program, which is looked for in `PATH`, and its arguments.
        init(_ command: [String], environment: [String: String]) throws {
            guard let program = command.first else { throw SuspensionPoliceError("no command to launch") }
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
            let code = posix_spawnp(&pid, program, nil, &attributes, &argv, &envp)
            guard code == 0 else { throw SuspensionPoliceError("cannot start \(program)", errno: code) }
            self.pid = pid
        }

        /// Whether it has ended; reaps it.
        var hasEnded: Bool {
            collect(WNOHANG)
            return exit != nil
        }

        /// It has been killed.
        func waitForEnd() { while exit == nil { collect(0) } }

        /// Kills it and its descendants, in whatever state they are.
        func end() {
            guard !hasEnded else { return }
            for member in ProcessTree(root: pid).members where member.pid != pid { member.signal(SIGKILL) }
            kill(pid, SIGKILL)
            waitForEnd()
        }

        private func collect(_ flags: Int32) {
            guard exit == nil else { return }
            var status: Int32 = 0
            let result = waitpid(pid, &status, flags)
            if result == -1, errno != EINTR { exit = .signal(SIGKILL) }
            guard result == pid else { return }
            let number = status & 0x7F
            exit = number == 0 ? .status((status >> 8) & 0xFF) : .signal(number)
        }
    }

    extension SuspensionPolice {
        /// Starts a program, to be put before the police, with its standard input and output those of the caller.
        ///
        /// - parameter command: the program, looked for in `PATH`, and its arguments.
        /// - parameter environment: what is added to the caller's.
        /// - returns: its pid.
        public func launch(_ command: [String], environment: [String: String] = [:]) throws -> Int32 {
            let process = try LaunchedProcess(command, environment: environment.merging(self.environment) { $1 })
            launched[process.pid] = process
            return process.pid
        }
    }
#endif
