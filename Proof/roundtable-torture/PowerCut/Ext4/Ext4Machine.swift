#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableTestSupport

    /// What a campaign on a real file system needs of the machine: root, loop devices, and programs of e2fsprogs and util-linux.
    enum Ext4Machine {
        /// The machine does not allow the campaign.
        struct Refusal: Error, CustomStringConvertible {
            var reason: String
            var description: String {
                "power cuts of a real file system need root, loop devices, and mkfs.ext4, mount, umount and unshare: \(reason)"
            }
        }

        private static let mark = "ext4-campaign"
        private static let variable = "ROUNDTABLE_POWERCUT_MOUNTS"

        /// Whether this process has mounts of its own.
        private static var hasOwnMounts: Bool { getenv(variable) != nil }

        /// Continues in a process image whose mounts no other process sees.
        ///
        /// The system unmounts them, and detaches their loop devices, when the last process of the campaign has ended, however it ended.
        static func enter() throws {
            guard !hasOwnMounts else { return }
            guard geteuid() == 0 else { throw Refusal(reason: "this process is not root") }
            guard FileManager.default.fileExists(atPath: "/dev/loop-control") else {
                throw Refusal(reason: "there is no /dev/loop-control")
            }
            for program in ["mkfs.ext4", "mount", "umount"] { _ = try path(of: program) }
            let options = ["--mount", "--propagation", "private"]
            let notes = FileManager.default.temporaryDirectory.appendingPathComponent(
                "roundtable-unshare-\(getpid()).log"
            )
            defer { try? FileManager.default.removeItem(at: notes) }
            do {
                try run("unshare", options + ["true"], notes: notes)
            } catch {
                throw Refusal(reason: "\(error)")
            }
            let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let unshare = try path(of: "unshare")
            let arguments = [unshare] + options + ["--", program] + CommandLine.arguments.dropFirst()
            setenv(variable, "1", 1)
            var words = arguments.map { strdup($0) } + [nil]
            execv(unshare, &words)
            throw Refusal(reason: "\(unshare): \(String(cString: strerror(errno)))")
        }

        /// Makes a file system, cuts its power, and mounts it again.
        static func probe(in folder: URL) throws {
            var random = SeededGenerator(seed: 0)
            do {
                let image = try Ext4Image(in: folder, options: Ext4Image.Options(&random))
                defer { image.remove() }
                try image.mount()
                try image.cut(.nothing)
                try image.unmount()
                try image.mount()
            } catch {
                throw Refusal(reason: "\(error)")
            }
        }

        /// A folder for images, in memory where that is possible. Folders of campaigns that have died are removed.
        static func temporaryFolder() throws -> TemporaryFolder {
            let temporary = try TemporaryFolder(inMemory: true)
            let parent = temporary.url.deletingLastPathComponent()
            for name in (try? FileManager.default.contentsOfDirectory(atPath: parent.path)) ?? [] {
                let words = name.split(separator: "-")
                guard words.count == 3, words[0] == "roundtable", let pid = Int32(words[1]) else { continue }
                let folder = parent.appendingPathComponent(name, isDirectory: true)
                let isCampaign = FileManager.default.fileExists(atPath: folder.appendingPathComponent(mark).path)
                if isCampaign, kill(pid, 0) == -1, errno == ESRCH { try? FileManager.default.removeItem(at: folder) }
            }
            try Data().write(to: temporary.url.appendingPathComponent(mark))
            return temporary
        }

        /// Runs a program to its end.
        ///
        /// - parameter notes: a file that gets what the program prints.
        /// - throws: what it has printed, if it fails.
        static func run(_ program: String, _ arguments: [String], notes: URL) throws {
            try? FileManager.default.removeItem(at: notes)
            let process = try ChildProcess(
                executable: URL(fileURLWithPath: path(of: program)),
                arguments: arguments,
                errorOutput: notes,
                outputToErrors: true
            )
            let exit = try process.waitForExit(within: .seconds(120))
            guard exit == .status(0) else {
                let command = ([program] + arguments).joined(separator: " ")
                throw TestKitError("'\(command)' ended with \(exit): \(process.errorText)")
            }
        }

        /// Ends the campaign at once. Waiting for a process that the kernel does not end would take for ever.
        static func giveUp(_ reason: String) -> Never {
            FileHandle.standardError.write(Data("\(reason)\n".utf8))
            _exit(70)
        }

        private static func path(of program: String) throws -> String {
            let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
            let candidates = (folders + ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]).map { "\($0)/\(program)" }
            guard let path = candidates.first(where: FileManager.default.isExecutableFile) else {
                throw Refusal(reason: "there is no \(program)")
            }
            return path
        }
    }
#endif
