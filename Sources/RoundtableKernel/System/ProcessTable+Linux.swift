#if os(Linux)
    import Glibc

    package enum ProcessTable {
        /// The entry of `/proc/PID/stat` (proc(5)), or nil when there is no such process or it cannot be read.
        package static func entry(_ pid: Int32) -> ProcessEntry? {
            guard let line = ThreadLine("/proc/\(pid)/stat"), let startTime = line.number(ofField: 22) else {
                return nil
            }
            var (isStopped, isZombie) = (line.isStopped, line.isEnded)
            // The main thread may end before the others. The process lives as long as one thread does.
            if isZombie, let count = line.number(ofField: 20), count > 1 {
                let others = threads(of: pid).filter { !$0.isEnded }
                // Threads that could not be read, or that are starting and ending, do not prove that the process is dead.
                if others.isEmpty { return nil }
                (isZombie, isStopped) = (false, others.allSatisfy(\.isStopped))
            }
            // The start time is 0 when the time namespace does not allow to compute it.
            return ProcessEntry(
                startTime: TimeNamespace.own.startTime(startTime) ?? 0,
                isStopped: isStopped,
                isZombie: isZombie
            )
        }

        /// A line of `/proc/PID/stat`, of a process or of one thread (proc_pid_stat(5)).
        private struct ThreadLine {
            /// The fields from the third one on.
            private let fields: [ArraySlice<UInt8>]

            init?(_ path: String) {
                guard let bytes = try? contents(of: path) else { return nil }
                // The second field is the program's name in parentheses, which may itself hold spaces and parentheses.
                guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
                fields = bytes[(end + 1)...].split(separator: UInt8(ascii: " "))
                if fields.isEmpty { return nil }
            }

            func number(ofField number: Int) -> UInt64? {
                number - 3 < fields.count ? UInt64(String(decoding: fields[number - 3], as: UTF8.self)) : nil
            }

            private var state: UInt8 { fields[0].first ?? 0 }
            var isStopped: Bool { state == UInt8(ascii: "T") || state == UInt8(ascii: "t") }
            var isEnded: Bool { state == UInt8(ascii: "Z") || state == UInt8(ascii: "X") }
        }

        private static func threads(of pid: Int32) -> [ThreadLine] {
            let folder = "/proc/\(pid)/task"
            return ((try? System.names(inFolder: folder)) ?? []).compactMap { ThreadLine("\(folder)/\($0)/stat") }
        }

        static let hasNamespaces = true

        /// Whether `/proc` shows the pids of this process's namespace. It may have been mounted in another one.
        static let showsOwnNamespace: Bool = {
            // This does not go through `System`, because the effect of an injected fault would last for the life of the process.
            var text = [UInt8](repeating: 0, count: 32)
            let count = text.withUnsafeMutableBytes {
                readlink("/proc/self", $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
            }
            return count > 0 && Int32(String(decoding: text.prefix(count), as: UTF8.self)) == getpid()
        }()

        /// The pid of a process in its own pid namespace; nil when there is no such process.
        package static func innermostPID(_ pid: Int32) -> Int32? {
            guard let bytes = try? contents(of: "/proc/\(pid)/status") else { return nil }
            let line = String(decoding: bytes, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("NSpid:") }
            return line?.split(whereSeparator: \.isWhitespace).last.flatMap { Int32($0) }
        }

        /// The program's name, as `ps` shows it. A process may give itself any name, so control characters are made visible.
        package static func name(_ pid: Int32) -> String? {
            guard var bytes = try? contents(of: "/proc/\(pid)/comm") else { return nil }
            // The system adds the last line end.
            if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
            return String(decoding: bytes, as: UTF8.self).withVisibleControls
        }

        /// The user and the groups that decide which files a process may open; nil when there is no such process.
        package static func credentials(_ pid: Int32) -> Credentials? {
            guard let bytes = try? contents(of: "/proc/\(pid)/status") else { return nil }
            func numbers(_ field: String) -> [UInt32] {
                let line = String(decoding: bytes, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix(field) }
                return (line ?? "").split(whereSeparator: \.isWhitespace).dropFirst().compactMap { UInt32($0) }
            }
            // Each line lists the real, the effective, the saved and the file system's number.
            guard let user = numbers("Uid:").last, let group = numbers("Gid:").last else { return nil }
            return Credentials(user: user, groups: Set(numbers("Groups:") + [group]))
        }

        /// Whether a process has a file open for writing, by the flags of its descriptors (proc_pid_fdinfo(5)); nil when it does not have
        /// the file open, or may not be inspected.
        package static func writes(_ file: FileIdentity, _ pid: Int32) -> Bool? {
            var isOpen = false
            for lines in descriptors(of: file, pid) {
                guard let line = lines.first(where: { $0.hasPrefix("flags:") }),
                    let flags = line.split(whereSeparator: \.isWhitespace).last.flatMap({ Int32($0, radix: 8) })
                else { continue }
                if flags & O_ACCMODE != O_RDONLY { return true }
                isOpen = true
            }
            return isOpen ? false : nil
        }

        /// The processes that hold a shared lock of an open file description on a file, as far as this process may inspect them.
        package static func readLockers(of file: FileIdentity) -> [Int32] {
            let pids = ((try? System.names(inFolder: "/proc")) ?? []).compactMap { Int32($0) }
            return pids.filter { pid in
                descriptors(of: file, pid).joined().contains {
                    $0.hasPrefix("lock:") && $0.contains("OFDLCK") && $0.contains(" READ ")
                }
            }
        }

        /// What the system shows of each descriptor that a process has of a file, in lines (proc_pid_fdinfo(5)). Empty when it has none, or
        /// may not be inspected.
        private static func descriptors(of file: FileIdentity, _ pid: Int32) -> [[Substring]] {
            let names = (try? System.names(inFolder: "/proc/\(pid)/fd")) ?? []
            return names.compactMap { name in
                // This does not open the file (rule G5).
                guard let status = try? System.status(ofFileAt: "/proc/\(pid)/fd/\(name)"),
                    FileIdentity(status) == file,
                    let bytes = try? contents(of: "/proc/\(pid)/fdinfo/\(name)")
                else { return nil }
                return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
            }
        }

        /// The contents of a file of `/proc`, which has no size and is read to its end.
        package static func contents(of path: String) throws -> [UInt8] {
            let descriptor = try System.perform(.readProcess, path) { open(path, O_RDONLY | O_CLOEXEC) }
            defer { close(descriptor) }
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = try System.perform(.readProcess, path) { read(descriptor, &buffer, buffer.count) }
                if count == 0 { return bytes }
                bytes += buffer[..<count]
            }
        }
    }

    /// The inode of this process's pid namespace; 0 when it cannot be read. This does not go through `System`, because the effect of
    /// an injected fault would last for the life of the process.
    let ownNamespace: UInt64 = {
        var status = stat()
        return stat("/proc/self/ns/pid", &status) == 0 ? UInt64(status.st_ino) : 0
    }()
#endif
