#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// One run of one program: a pid alone is used again by the system.
package struct ProcessIdentity: Hashable, Sendable {
    package let pid: Int32
    /// Linux: clock ticks after boot (`/proc/PID/stat` field 22), as the first time namespace has it; Darwin: µs since 1970. 0: unknown.
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
        let entry = ProcessTable.showsOwnNamespace ? ProcessTable.entry(pid) : nil
        return ProcessIdentity(pid: pid, startTime: entry?.startTime ?? 0, namespace: ownNamespace)
    }
}

/// What the system tells of a process.
package struct ProcessEntry: Equatable, Sendable {
    package let startTime: UInt64
    /// SIGSTOP, SIGTSTP, a debugger, or the system's suspension: no thread runs.
    package let isStopped: Bool
    /// Dead, and not yet reaped by its parent. All threads have ended, not the main one alone.
    package let isZombie: Bool
}

extension ProcessTable {
    /// Whether there is such a process, and it is neither dead nor stopped. Of a pid alone: another process may have got it.
    package static func isRunning(_ pid: Int32) -> Bool {
        entry(pid).map { !$0.isStopped && !$0.isZombie } ?? false
    }

    /// Whether a process that is seen here under one pid is the participant that says another of itself.
    ///
    /// - Parameters:
    ///   - seen: the pid in this process's pid namespace, as `/proc/locks` lists it.
    ///   - pid: the pid in the participant's own.
    ///   - isElsewhere: whether that is another one. Processes of the namespaces below are seen, and no others.
    package static func isProcess(_ seen: Int32, _ pid: Int32, startTime: UInt64, isElsewhere: Bool) -> Bool {
        if !isElsewhere, showsOwnNamespace { return seen == pid }
        guard innermostPID(seen) == pid, let found = entry(seen)?.startTime else { return false }
        // 0: the time namespace does not tell.
        return found == startTime || found == 0 || startTime == 0
    }

    /// For people: `pid 17`, or `pid 17 in another pid namespace`.
    package static func description(ofPID pid: Int32, isElsewhere: Bool) -> String {
        isElsewhere ? "pid \(pid) in another pid namespace" : "pid \(pid)"
    }
}

package enum Liveness: Equatable, Sendable {
    case alive
    case stopped
    case dead
    /// The system does not tell. Never treated as dead (rule P4).
    case unknown
}

extension ProcessIdentity {
    /// What the pid tells (rule P4): *unknown* in another pid namespace. `reader` is the process that asks.
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
        // Of a `/proc` of another pid namespace, the entry would be another process's.
        guard ProcessTable.showsOwnNamespace, let entry = ProcessTable.entry(pid) else { return .unknown }
        if entry.isZombie { return .dead }
        if startTime != 0, entry.startTime != 0, entry.startTime != startTime { return .dead }
        return entry.isStopped ? .stopped : .alive
    }
}
