import Foundation

/// What the system has counted for each thread of a process.
struct ProcessUsage {
    struct Counts {
        var voluntarySwitches = 0
        var involuntarySwitches = 0
        var processorTime: Nanoseconds = 0
    }

    private var byThread: [String: Counts] = [:]

    /// - returns: nil where the system does not tell (proc(5)), or the process is gone.
    init?(of pid: Int32) {
        let tasks = "/proc/\(pid)/task"
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: tasks) else { return nil }
        for thread in threads {
            guard let status = try? String(contentsOfFile: "\(tasks)/\(thread)/status", encoding: .utf8),
                let times = try? String(contentsOfFile: "\(tasks)/\(thread)/schedstat", encoding: .utf8)
            else { continue }
            var counts = Counts()
            for line in status.split(separator: "\n") {
                let words = line.split(whereSeparator: \.isWhitespace)
                switch words.first {
                case "voluntary_ctxt_switches:": counts.voluntarySwitches = Int(words[1]) ?? 0
                case "nonvoluntary_ctxt_switches:": counts.involuntarySwitches = Int(words[1]) ?? 0
                default: break
                }
            }
            counts.processorTime = times.split(separator: " ").first.flatMap { Nanoseconds($0) } ?? 0
            byThread[thread] = counts
        }
    }

    /// Since an earlier count. Threads that have ended since do not count: those of Dispatch's queues do after 5 s without work.
    func counts(since earlier: ProcessUsage) -> Counts {
        byThread.reduce(into: Counts()) { sum, thread in
            let before = earlier.byThread[thread.key] ?? Counts()
            sum.voluntarySwitches += thread.value.voluntarySwitches - before.voluntarySwitches
            sum.involuntarySwitches += thread.value.involuntarySwitches - before.involuntarySwitches
            sum.processorTime += thread.value.processorTime - before.processorTime
        }
    }
}

extension Signalling {
    /// Waits until the receiver is quiet, then counts what it does.
    ///
    /// - returns: nil where the system does not tell.
    func idleFigures(seconds: Double) throws -> Figures? {
        guard let pid = receiverPID, var before = ProcessUsage(of: pid) else { return nil }
        let deadline = Clock.now + 30_000_000_000
        // After the last write the `-wal` file is looked at for a while.
        while true {
            Clock.sleep(until: Clock.now + 2_000_000_000)
            guard let now = ProcessUsage(of: pid) else { return nil }
            defer { before = now }
            if now.counts(since: before).voluntarySwitches == 0 { break }
            guard Clock.now < deadline else { break }
        }
        Clock.sleep(until: Clock.now + Nanoseconds(seconds: seconds))
        guard let after = ProcessUsage(of: pid) else { return nil }
        let counts = after.counts(since: before)
        return [
            "voluntary_switches": Double(counts.voluntarySwitches),
            "involuntary_switches": Double(counts.involuntarySwitches),
            "cpu_us": counts.processorTime.microseconds,
            "seconds": seconds,
        ]
    }
}
