#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// One run of one program: a pid alone is used again by the system.
package struct ProcessIdentity: Hashable, Sendable {
    package let pid: Int32
    /// Linux: clock ticks after boot (`/proc/PID/stat` field 22); Darwin: µs since 1970. 0: unknown.
    package let startTime: UInt64
    /// Linux: inode of the pid namespace; 0 where there are none, or it cannot be read.
    package let namespace: UInt64

    package init(pid: Int32, startTime: UInt64, namespace: UInt64) {
        self.pid = pid
        self.startTime = startTime
        self.namespace = namespace
    }

    /// The calling process.
    package static var current: ProcessIdentity {
        let pid = getpid()
        return ProcessIdentity(pid: pid, startTime: ProcessTable.entry(pid)?.startTime ?? 0, namespace: ownNamespace)
    }
}

/// What the system tells of a process.
package struct ProcessEntry: Equatable, Sendable {
    package let startTime: UInt64
    /// SIGSTOP, SIGTSTP, a debugger, or the system's suspension.
    package let isStopped: Bool
    /// Dead, and not yet reaped by its parent.
    package let isZombie: Bool
}

extension ProcessTable {
    /// Whether there is such a process, and it is neither dead nor stopped. Of a pid alone: another process may have got it.
    package static func isRunning(_ pid: Int32) -> Bool {
        entry(pid).map { !$0.isStopped && !$0.isZombie } ?? false
    }
}

package enum Liveness: Equatable, Sendable {
    case alive
    case stopped
    case dead
    /// Another pid namespace, or the system does not tell. Never treated as dead (rule P4).
    case unknown
}

extension ProcessIdentity {
    /// Rule P4. `reader` is the process that asks.
    package func liveness(seenFrom reader: ProcessIdentity) -> Liveness {
        guard namespace == reader.namespace, pid > 0 else { return .unknown }
        do {
            try System.perform(.kill) { kill(pid, 0) }
        } catch let error as SystemError {
            if error.errno == ESRCH { return .dead }
            if error.errno != EPERM { return .unknown }
        } catch {
            return .unknown
        }
        guard let entry = ProcessTable.entry(pid) else { return .unknown }
        if entry.isZombie { return .dead }
        if startTime != 0, entry.startTime != startTime { return .dead }
        return entry.isStopped ? .stopped : .alive
    }
}
