#if os(Linux)
    import Foundation

    /// New namespaces for a process, such as containers use (unshare(1)).
    package struct Namespaces: Sendable {
        private let arguments: [String]

        private init(_ arguments: [String]) { self.arguments = arguments }

        /// A pid namespace, with a `/proc` that shows only its processes.
        package static let pid = Namespaces(["--pid", "--mount-proc"])
        /// A time namespace, whose clocks are ahead by more than an hour.
        package static let time = Namespaces(["--time", "--boottime", "100000", "--monotonic", "5000"])
        /// A user namespace, in which the process has no user of the machine.
        package static let user = Namespaces(["--user"])
        /// A user namespace and a pid namespace, in which the process is the superuser.
        package static let userAndPID = Namespaces(["--user", "--map-root-user", "--pid", "--mount-proc"])

        package static let unshare = "/usr/bin/unshare"

        /// The arguments of `unshare` that start a program. `unshare` ends when the program ends, and the program when `unshare` ends.
        package func command(_ program: [String]) -> [String] { arguments + ["--fork", "--kill-child"] + program }

        /// Whether the system allows this process to create these namespaces.
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
