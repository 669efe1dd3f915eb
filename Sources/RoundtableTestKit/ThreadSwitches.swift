import Foundation

/// How often the threads of a process have gone to sleep by themselves: each wake-up ends with one.
package struct ThreadSwitches: Sendable {
    private var byThread: [Int: Int]

    /// - throws: where the system does not tell (`/proc/PID/task/TID/status`, proc(5)), or the process is gone.
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

    /// How often its threads have slept and woken since. A thread that has ended meanwhile does not count: those of Dispatch's queues
    /// do after 5 s without work. One that has begun does.
    package func count(since earlier: ThreadSwitches) -> Int {
        byThread.reduce(0) { $0 + ($1.value - (earlier.byThread[$1.key] ?? -1)) }
    }

    package static var isSupported: Bool { FileManager.default.fileExists(atPath: "/proc/self/task") }
}
