import Foundation

/// The number of voluntary context switches of each thread of a process. Each wake-up ends with one.
package struct ThreadSwitches: Sendable {
    private var byThread: [Int: Int]

    /// - throws: when the system has no such numbers (`/proc/PID/task/TID/status`, proc(5)), or the process has ended.
    package init(of pid: Int32) throws {
        let tasks = "/proc/\(pid)/task"
        byThread = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: tasks) {
            // A thread that has just ended has no file.
            guard let thread = Int(name),
                let status = try? String(contentsOfFile: "\(tasks)/\(name)/status", encoding: .utf8)
            else { continue }
            for line in status.split(separator: "\n") where line.hasPrefix("voluntary_ctxt_switches:") {
                byThread[thread] = line.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) }
            }
        }
        guard !byThread.isEmpty else { throw TestKitError("\(tasks): tells of no thread") }
    }

    /// How often the threads have slept and woken since `earlier`. A thread that has started meanwhile counts. A thread that has ended
    /// meanwhile does not: the threads of Dispatch's queues end after 5 s without work.
    package func count(since earlier: ThreadSwitches) -> Int {
        byThread.reduce(0) { $0 + ($1.value - (earlier.byThread[$1.key] ?? -1)) }
    }

    package static var isSupported: Bool { FileManager.default.fileExists(atPath: "/proc/self/task") }
}
