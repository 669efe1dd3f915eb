#if os(Linux)
    /// The mounts that this process sees, as in `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
    struct MountTable {
        /// Where something is mounted.
        private(set) var points: Set<String> = []
        /// The types of the file systems, by the `major:minor` of their devices.
        private var types: [String: String] = [:]

        /// nil when it cannot be read.
        static var own: MountTable? {
            (try? ProcessTable.contents(of: "/proc/self/mountinfo")).map {
                MountTable(String(decoding: $0, as: UTF8.self))
            }
        }

        /// - parameter text: lines such as `36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda rw`. Lines of another form are
        ///   passed over.
        init(_ text: String) {
            for line in text.split(separator: "\n") {
                let fields = line.split(separator: " ")
                guard fields.count >= 6, let dash = fields[6...].firstIndex(of: "-"), dash + 1 < fields.count else {
                    continue
                }
                points.insert(Self.unescaped(fields[4]))
                types[String(fields[2])] = String(fields[dash + 1])
            }
        }

        func type(ofDevice device: UInt64) -> String? {
            // The parts of a device's number, as gnu_dev_major and gnu_dev_minor of glibc take them apart.
            let major = (device >> 8) & 0xFFF | (device >> 32) & ~0xFFF
            let minor = device & 0xFF | (device >> 12) & ~0xFF
            return types["\(major):\(minor)"]
        }

        /// The kernel writes space, tab, line feed and backslash as `\\` and three octal digits.
        private static func unescaped(_ field: Substring) -> String {
            var bytes: [UInt8] = []
            var rest = Array(field.utf8)[...]
            while let byte = rest.popFirst() {
                if byte == UInt8(ascii: "\\"), rest.count >= 3,
                    let code = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8)
                {
                    bytes.append(code)
                    rest = rest.dropFirst(3)
                } else {
                    bytes.append(byte)
                }
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
#endif
