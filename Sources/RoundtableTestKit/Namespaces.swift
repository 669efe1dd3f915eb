#if os(Linux)
    import Foundation

    /// New namespaces for a process, as containers have them (unshare(1)).
    package struct Namespaces: Sendable {
        private let arguments: [String]

        private init(_ arguments: [String]) { self.arguments = arguments }

        /// Of pids, with a `/proc` that shows them alone.
        package static let pid = Namespaces(["--pid", "--mount-proc"])
        /// Of times: the clocks are ahead by more than an hour.
        package static let time = Namespaces(["--time", "--boottime", "100000", "--monotonic", "5000"])
        /// Of users: the process has no user of the machine.
        package static let user = Namespaces(["--user"])
        /// Of users and pids: it is the superuser there alone.
        package static let userAndPID = Namespaces(["--user", "--map-root-user", "--pid", "--mount-proc"])

        static let unshare = "/usr/bin/unshare"

        /// The process ends with the one that is started, and the other way round.
        func command(_ program: [String]) -> [String] { arguments + ["--fork", "--kill-child"] + program }

        /// Whether the system lets this process have them.
        package var arePermitted: Bool {
            guard FileManager.default.isExecutableFile(atPath: Self.unshare) else { return false }
            let process = Process()
            process.executableURL = URL(fileURLWithPath: Self.unshare)
            process.arguments = command(["/bin/true"])
            process.standardError = FileHandle.nullDevice
            guard (try? process.run()) != nil else { return false }
            process.waitUntilExit()
            return process.terminationStatus == 0
        }
    }
#endif
