#if os(Linux)
    import Foundation
    import RoundtableKernel

    /// The states of the threads of a process, by `/proc/PID/task/TID/stat` (proc_pid_stat(5)).
    struct ThreadStates {
        struct Thread {
            let id: Int32
            let state: UInt8
            /// Whether a stop signal or a debugger has stopped the thread.
            var isStopped: Bool { state == UInt8(ascii: "T") || state == UInt8(ascii: "t") }
            /// Whether the thread takes no signal, because it waits for a disk, or in vfork(2) for its child.
            var isUninterruptible: Bool { state == UInt8(ascii: "D") }
            var isDead: Bool { state == UInt8(ascii: "Z") || state == UInt8(ascii: "X") }
        }

        /// The threads, the main thread first. Empty when there is no such process.
        let threads: [Thread]

        init(of pid: Int32) {
            let folder = "/proc/\(pid)/task"
            let ids = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).compactMap { Int32($0) }
            threads = ids.sorted { ($0 == pid ? 0 : $0) < ($1 == pid ? 0 : $1) }.compactMap { id in
                guard let bytes = try? ProcessTable.contents(of: "\(folder)/\(id)/stat"),
                    let end = bytes.lastIndex(of: UInt8(ascii: ")")), end + 2 < bytes.count
                else { return nil }
                return Thread(id: id, state: bytes[end + 2])
            }
        }

        var isUninterruptible: Bool { threads.contains(where: \.isUninterruptible) }
        var isGone: Bool { threads.allSatisfy(\.isDead) }
        /// Whether the process exists and no thread of it runs.
        var areStopped: Bool { !isGone && threads.allSatisfy { $0.isStopped || $0.isDead } }
    }
#endif
