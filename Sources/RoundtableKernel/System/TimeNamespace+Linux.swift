#if os(Linux)
    import Glibc

    /// The offsets of a time namespace's clocks, relative to the machine's first time namespace (time_namespaces(7)).
    struct TimeNamespace: Equatable, Sendable {
        /// The offset of `CLOCK_MONOTONIC`, in ns.
        var monotonic: Int64
        /// The offset of `CLOCK_BOOTTIME`, in ns; nil: unknown.
        var boottime: Int64?

        static let first = TimeNamespace(monotonic: 0, boottime: 0)

        /// The time namespace of the calling process. It is read once, because a process with threads cannot change its time namespace.
        static let own: TimeNamespace = {
            // This does not go through `System`, because the effect of an injected fault would last for the life of the process.
            guard let current = inode("/proc/self/ns/time") else { return first }
            // The file shows the time namespace of future children, which is another one after unshare(2).
            if current == inode("/proc/self/ns/time_for_children"), let text = text(of: "/proc/self/timens_offsets") {
                return TimeNamespace(offsets: text) ?? TimeNamespace(monotonic: 0, boottime: nil)
            }
            return current == firstInode ? first : TimeNamespace(monotonic: 0, boottime: nil)
        }()

        /// PROC_TIME_INIT_INO of the kernel.
        private static let firstInode: UInt = 0xEFFF_FFFA

        init(monotonic: Int64, boottime: Int64?) { (self.monotonic, self.boottime) = (monotonic, boottime) }

        /// - parameter offsets: two lines such as `monotonic  86400  0`: clock, seconds, nanoseconds.
        init?(offsets: String) {
            var found: [Substring: Int64] = [:]
            for line in offsets.split(separator: "\n") {
                let fields = line.split(separator: " ", omittingEmptySubsequences: true)
                guard fields.count == 3, let seconds = Int64(fields[1]), let rest = Int64(fields[2]) else { return nil }
                let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
                guard !overflow else { return nil }
                found[fields[0]] = product &+ rest
            }
            guard let monotonic = found["monotonic"], let boottime = found["boottime"] else { return nil }
            self.init(monotonic: monotonic, boottime: boottime)
        }

        /// The start time of a process in the first time namespace; nil when it cannot be computed exactly.
        ///
        /// - parameter ticks: the start time that `/proc/PID/stat` shows in this time namespace.
        func startTime(_ ticks: UInt64) -> UInt64? {
            let tick = 1_000_000_000 / Int64(max(1, sysconf(Int32(_SC_CLK_TCK))))
            guard let boottime, boottime % tick == 0 else { return nil }
            return ticks &- UInt64(bitPattern: boottime / tick)
        }

        private static func inode(_ path: String) -> UInt? {
            var status = stat()
            return stat(path, &status) == 0 ? status.st_ino : nil
        }

        /// The first 256 bytes of a file of `/proc`, not by way of `System`.
        static func text(of path: String) -> String? {
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return nil }
            defer { close(descriptor) }
            var bytes = [UInt8](repeating: 0, count: 256)
            let count = read(descriptor, &bytes, bytes.count)
            return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
        }
    }
#endif
