#if os(Linux)
    import Foundation
    import Glibc

    /// A process that the police has started.
    ///
    /// It has a process group of its own: should the police die, the system continues and hangs up what is stopped.
    package final class LaunchedProcess {
        package typealias Exit = ProgramExit

        let pid: Int32
        /// Known when it has been reaped, which nobody does before ``end()``: until then, its pid and its group are its own.
        private(set) var exit: Exit?

        /// - parameter command: the program, which is looked for in `PATH`, and its arguments.
        /// - parameter outputToErrors: its standard output is the caller's standard error.
        init(_ command: [String], environment: [String: String], outputToErrors: Bool) throws {
            guard let program = command.first else { throw SuspensionPoliceError("no command to launch") }
            var launch = ProgramLaunch(program, Array(command.dropFirst()))
            launch.environment.merge(environment) { $1 }
            if outputToErrors { launch.descriptors = [STDOUT_FILENO: STDERR_FILENO] }
            switch launch.start() {
            case .success(let pid): self.pid = pid
            case .failure(let error): throw SuspensionPoliceError("cannot start \(program)", errno: error.errno)
            }
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
            exit = Exit(waitStatus: status)
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
