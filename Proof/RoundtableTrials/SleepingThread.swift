import Foundation
import RoundtableProcesses

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A thread of this process that other threads see fall asleep (`/proc/self/task`, proc(5)).
package struct SleepingThread: Sendable {
    /// nil where the system does not tell.
    private let folder: String?

    /// The calling thread.
    package static var current: SleepingThread {
        SleepingThread(folder: try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self"))
    }

    /// Waits until the thread has slept for this long without a break. Returns at once where the system does not tell.
    package func waitUntilItSleeps(for time: Duration = .milliseconds(1)) throws {
        guard let folder else { return }
        try eventually("the thread sleeps for \(time)") {
            guard let before = switches(in: folder) else { return false }
            let end = ContinuousClock.now + time
            while ContinuousClock.now < end { sched_yield() }
            return switches(in: folder) == before
        }
    }

    /// How often it has fallen asleep; nil while it is awake.
    private func switches(in folder: String) -> Substring? {
        guard let status = try? String(contentsOfFile: "/proc/\(folder)/status", encoding: .utf8) else { return nil }
        let lines = status.split(separator: "\n")
        guard lines.contains(where: { $0.hasPrefix("State:\tS") }) else { return nil }
        return lines.first { $0.hasPrefix("voluntary_ctxt_switches:") }
    }
}
