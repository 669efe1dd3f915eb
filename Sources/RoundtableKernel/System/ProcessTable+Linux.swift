#if os(Linux)
    import Glibc

    package enum ProcessTable {
        /// What `/proc/PID/stat` says (proc(5)), or nil when there is no such process or it cannot be read.
        package static func entry(_ pid: Int32) -> ProcessEntry? {
            guard let bytes = try? contents(of: "/proc/\(pid)/stat") else { return nil }
            // The second field is the program's name in parentheses, which may itself hold spaces and parentheses.
            guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
            let fields = bytes[(end + 1)...].split(separator: UInt8(ascii: " "))
            guard fields.count > 19, let state = fields[0].first,
                let startTime = UInt64(String(decoding: fields[19], as: UTF8.self))
            else { return nil }
            return ProcessEntry(
                startTime: startTime,
                isStopped: state == UInt8(ascii: "T") || state == UInt8(ascii: "t"),
                isZombie: state == UInt8(ascii: "Z") || state == UInt8(ascii: "X")
            )
        }

        /// The program's name, as `ps` shows it.
        package static func name(_ pid: Int32) -> String? {
            guard let bytes = try? contents(of: "/proc/\(pid)/comm") else { return nil }
            return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        }

        /// A file of `/proc`, which has no size and is read to its end.
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

    let ownNamespace: UInt64 = {
        var status = stat()
        return stat("/proc/self/ns/pid", &status) == 0 ? UInt64(status.st_ino) : 0
    }()
#endif
