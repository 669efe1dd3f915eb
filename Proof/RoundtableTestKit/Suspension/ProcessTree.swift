#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableKernel

    /// A process and its descendants. Each is identified by pid and start time, so that no signal reaches a process that reuses the pid.
    struct ProcessTree {
        struct Member: Hashable {
            let pid: Int32
            let startTime: UInt64

            /// nil when there is no such process, or it is a zombie.
            init?(_ pid: Int32) {
                guard let entry = ProcessTable.entry(pid) else { return nil }
                // A process looks like a zombie if only its main thread has ended, for example by `pthread_exit`.
                if entry.isZombie, ThreadStates(of: pid).isGone { return nil }
                self.pid = pid
                startTime = entry.startTime
            }

            var isAlive: Bool { Member(pid) == self }

            func signal(_ number: Int32) {
                if isAlive { kill(pid, number) }
            }

            /// How a process replaces the default action of a signal, such as ending the process.
            enum Handling: String, CaseIterable {
                case caught = "SigCgt:"
                case ignored = "SigIgn:"
                case blocked = "SigBlk:"
            }

            /// How the process handles signal `number`; empty when the default action applies.
            func handling(of number: Int32) -> Set<Handling> {
                guard let bytes = try? ProcessTable.contents(of: "/proc/\(pid)/status") else { return [] }
                return Self.handling(of: number, status: String(decoding: bytes, as: UTF8.self))
            }

            /// - parameter status: the text of `/proc/PID/status`.
            static func handling(of number: Int32, status: String) -> Set<Handling> {
                let bit = UInt64(1) << UInt64(number - 1)
                let lines = status.split(separator: "\n")
                let handlings = Handling.allCases.filter { handling in
                    guard let line = lines.first(where: { $0.hasPrefix(handling.rawValue) }) else { return false }
                    let mask = line.split(whereSeparator: \.isWhitespace).last.flatMap { UInt64($0, radix: 16) } ?? 0
                    // A blocked signal is taken by `signalfd` or `sigwait`. The C library also blocks all signals for a moment while it
                    // starts a thread or a program. That mask has the library's own signals, which no other code can block.
                    if handling == .blocked, mask & ownOfCLibrary != 0 { return false }
                    return mask & bit != 0
                }
                return Set(handlings)
            }

            /// SIGCANCEL and SIGSETXID of glibc (nptl(7)). musl uses the same numbers for its own signals.
            private static let ownOfCLibrary: UInt64 = 0b11 << 31
        }

        let members: [Member]
        /// The parent of each member except the root.
        let parents: [Member: Member]

        /// Lists the processes that exist now, the root first.
        init(root: Int32) {
            var found: [Member] = []
            var parents: [Member: Member] = [:]
            var next: [(pid: Int32, parent: Member?)] = [(root, nil)]
            while let (pid, parent) = next.popLast() {
                guard !found.contains(where: { $0.pid == pid }), let member = Member(pid) else { continue }
                found.append(member)
                parents[member] = parent
                next += Self.children(of: pid).map { ($0, member) }
            }
            members = found
            self.parents = parents
        }

        var pids: Set<Int32> { Set(members.map(\.pid)) }

        /// Whether the parent of `child` may be waiting in vfork(2) until the child runs `exec`.
        func isAwaited(_ child: Member) -> Bool {
            parents[child].map { ThreadStates(of: $0.pid).isUninterruptible } ?? false
        }

        /// Whether no thread of any member runs.
        var areStopped: Bool { !members.isEmpty && members.allSatisfy { ThreadStates(of: $0.pid).areStopped } }

        static func children(of pid: Int32) -> [Int32] {
            guard hasChildrenFiles else { return childrenBySearch(of: pid) }
            return ThreadStates(of: pid).threads.flatMap { thread in
                let bytes = (try? ProcessTable.contents(of: "/proc/\(pid)/task/\(thread.id)/children")) ?? []
                return String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap { Int32($0) }
            }
        }

        /// Compares the parent of every process, for kernels without CONFIG_PROC_CHILDREN.
        private static func childrenBySearch(of pid: Int32) -> [Int32] {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
            return names.compactMap { Int32($0) }.filter { parent(of: $0) == pid }
        }

        private static func parent(of pid: Int32) -> Int32? {
            guard let bytes = try? ProcessTable.contents(of: "/proc/\(pid)/stat"),
                let end = bytes.lastIndex(of: UInt8(ascii: ")"))
            else { return nil }
            let fields = bytes[(end + 1)...].split(separator: UInt8(ascii: " "))
            return fields.count > 1 ? Int32(String(decoding: fields[1], as: UTF8.self)) : nil
        }

        private static let hasChildrenFiles: Bool = {
            let pid = getpid()
            return access("/proc/\(pid)/task/\(pid)/children", R_OK) == 0
        }()
    }
#endif
