#if os(Linux)
    import Foundation
    import Glibc

    /// A process that the police has started.
    ///
    /// It has its own process group. If the police dies while the process is stopped, the system sends SIGHUP and SIGCONT to the group.
    package final class LaunchedProcess {
        package typealias Exit = ProgramExit

        let pid: Int32
        /// How the process ended; nil until it is reaped. Only ``end()`` reaps it, so its pid and its group are not reused before.
        private(set) var exit: Exit?

        /// - parameter command: the program, which is looked up in `PATH`, and its arguments.
        /// - parameter outputToErrors: whether its standard output is the caller's standard error.
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

        /// Waits until the process has ended, without reaping it. The caller must have killed it.
        func waitForEnd() {
            if exit == nil { ProgramExit.hasEnded(pid, waits: true) }
        }

        /// Kills the process, its descendants and its group, whatever their state, and reaps the process.
        func end() {
            guard exit == nil else { return }
            for member in ProcessTree(root: pid).members where member.pid != pid { member.signal(SIGKILL) }
            kill(-pid, SIGKILL)
            exit = Exit.reap(pid, waits: true)
        }
    }

    extension SuspensionPolice {
        /// Starts a program that the police can suspend. It inherits the caller's standard input and output.
        ///
        /// - parameter command: the program, which is looked up in `PATH`, and its arguments.
        /// - parameter environment: the variables that are added to the caller's environment.
        /// - parameter outputToErrors: whether its standard output is the caller's standard error.
        /// - returns: the pid of the program.
        /// - throws: `SuspensionPoliceError` when the program cannot be started.
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

        /// Asks a launched process to end (SIGTERM), and kills it if it has not ended within `patience`. Then kills what is left of its
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

        /// Whether a launched process has ended.
        package func hasEnded(_ pid: Int32) -> Bool { launched[pid]?.hasEnded ?? false }

        /// How a launched process ended; nil until it is terminated.
        package func exit(of pid: Int32) -> LaunchedProcess.Exit? { launched[pid]?.exit }
    }
#endif
