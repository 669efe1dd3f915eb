import CRoundtableShims
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The identity of a process. The pid alone does not suffice, because the system reuses pids.
package struct ProcessIdentity: Hashable, Sendable {
    package let pid: Int32
    /// Linux: clock ticks since boot (`/proc/PID/stat` field 22), in the first time namespace; Darwin: µs since 1970. 0: unknown.
    package let startTime: UInt64
    /// Linux: inode of the pid namespace; 0 on other systems, or when it cannot be read.
    package let namespace: UInt64

    package init(pid: Int32, startTime: UInt64, namespace: UInt64) {
        self.pid = pid
        self.startTime = startTime
        self.namespace = namespace
    }

    /// The calling process.
    package static var current: ProcessIdentity {
        let pid = getpid()
        let process = UInt64(rt_fork_generation()) << 32 | UInt64(UInt32(bitPattern: pid))
        if knownProcess.load(ordering: .acquiring) == process {
            return ProcessIdentity(pid: pid, startTime: knownStart.load(ordering: .relaxed), namespace: ownNamespace)
        }
        let entry = ProcessTable.showsOwnNamespace ? ProcessTable.entry(pid) : nil
        let current = ProcessIdentity(pid: pid, startTime: entry?.startTime ?? 0, namespace: ownNamespace)
        if current.startTime != 0 {
            knownStart.store(current.startTime, ordering: .relaxed)
            knownProcess.store(process, ordering: .releasing)
        }
        return current
    }

    /// The start time of the process `knownProcess`, because reading it takes longer than joining a control block. There is no lock,
    /// because another thread might hold it when the process forks.
    private static let knownStart = Atomic<UInt64>(0)
    /// The pid and the number of forks of the process whose start time is known; 0: none.
    private static let knownProcess = Atomic<UInt64>(0)
}

/// The system's information about a process.
package struct ProcessEntry: Equatable, Sendable {
    package let startTime: UInt64
    /// Whether no thread runs, because of SIGSTOP, SIGTSTP or a debugger. A process that iOS has suspended does not look so (its task is suspended,
    /// and the process is not stopped): there, patience decides.
    package let isStopped: Bool
    /// Whether all threads have ended, not only the main thread, and the parent has not reaped the process yet.
    package let isZombie: Bool
}

extension ProcessTable {
    /// Whether the process exists and is neither dead nor stopped. Only the pid is checked, which another process may have got by now.
    package static func isRunning(_ pid: Int32) -> Bool {
        entry(pid).map { !$0.isStopped && !$0.isZombie } ?? false
    }

    /// Whether the process with the pid `seen` is the participant with the pid `pid`. The two pids may belong to different pid namespaces.
    ///
    /// - Parameters:
    ///   - seen: a pid in this process's pid namespace, as `/proc/locks` lists it.
    ///   - pid: the participant's pid in its own pid namespace.
    ///   - startTime: the participant's start time, or 0 if it is unknown.
    ///   - isElsewhere: whether the participant's pid namespace differs from this process's. This process sees only the processes of its
    ///     own namespace and of the namespaces nested in it.
    package static func isProcess(_ seen: Int32, _ pid: Int32, startTime: UInt64, isElsewhere: Bool) -> Bool {
        if !isElsewhere, showsOwnNamespace { return seen == pid }
        guard innermostPID(seen) == pid, let found = entry(seen)?.startTime else { return false }
        // A start time is 0 when the time namespace does not allow to compute it.
        return found == startTime || found == 0 || startTime == 0
    }

    /// The text for messages: `pid 17`, or `pid 17 in another pid namespace`.
    package static func description(ofPID pid: Int32, isElsewhere: Bool) -> String {
        isElsewhere ? "pid \(pid) in another pid namespace" : "pid \(pid)"
    }
}
