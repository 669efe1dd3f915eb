#if os(Linux)
    import Foundation
    import RoundtableKernel

    /// The process group of a process, by `/proc/PID/stat` (proc_pid_stat(5)).
    struct ProcessGroup {
        private struct Place {
            let isAlive: Bool
            let parent: Int32
            let group: Int32
            let session: Int32

            init?(_ pid: Int32) {
                // The second field is the program's name in parentheses.
                guard let bytes = try? ProcessTable.contents(of: "/proc/\(pid)/stat"),
                    let end = bytes.lastIndex(of: UInt8(ascii: ")"))
                else { return nil }
                let fields = bytes[(end + 1)...].split(separator: UInt8(ascii: " "))
                let numbers = fields.dropFirst().prefix(3).compactMap { Int32(String(decoding: $0, as: UTF8.self)) }
                guard numbers.count == 3, let state = fields.first?.first else { return nil }
                isAlive = state != UInt8(ascii: "Z") && state != UInt8(ascii: "X")
                (parent, group, session) = (numbers[0], numbers[1], numbers[2])
            }
        }

        private let id: Int32

        /// nil when there is no such process.
        init?(of pid: Int32) {
            guard let place = Place(pid) else { return nil }
            id = place.group
        }

        /// Whether no member has a parent in another group of the same session. Stop signals do not stop such a group, because no process
        /// would continue it (POSIX, *Terminal Access Control*).
        var isOrphaned: Bool {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
            return !names.lazy.compactMap { Int32($0) }.contains { pid in
                guard let member = Place(pid), member.isAlive, member.group == id else { return false }
                // A parent in another pid namespace is not known. It is in another session if the session belongs to this namespace.
                guard member.parent != 0 else { return member.session == 0 }
                guard let parent = Place(member.parent) else { return false }
                return parent.group != id && parent.session == member.session
            }
        }
    }
#endif
