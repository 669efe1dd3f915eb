import Foundation

/// What an observer costs while nothing is written: what the system has counted for all threads of its process.
struct ProcessUsage {
    var voluntarySwitches = 0
    var involuntarySwitches = 0
    var processorTime: Nanoseconds = 0

    /// - returns: nil where the system does not tell (proc(5)), or the process is gone.
    init?(of pid: Int32) {
        #if os(Linux)
            let tasks = "/proc/\(pid)/task"
            guard let threads = try? FileManager.default.contentsOfDirectory(atPath: tasks) else { return nil }
            for thread in threads {
                guard let status = try? String(contentsOfFile: "\(tasks)/\(thread)/status", encoding: .utf8),
                    let times = try? String(contentsOfFile: "\(tasks)/\(thread)/schedstat", encoding: .utf8)
                else { continue }
                for line in status.split(separator: "\n") {
                    let words = line.split(whereSeparator: \.isWhitespace)
                    switch words.first {
                    case "voluntary_ctxt_switches:": voluntarySwitches += Int(words[1]) ?? 0
                    case "nonvoluntary_ctxt_switches:": involuntarySwitches += Int(words[1]) ?? 0
                    default: break
                    }
                }
                processorTime += times.split(separator: " ").first.flatMap { Nanoseconds($0) } ?? 0
            }
        #else
            return nil
        #endif
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
            if now.voluntarySwitches == before.voluntarySwitches { break }
            guard Clock.now < deadline else { break }
        }
        Clock.sleep(until: Clock.now + Nanoseconds(seconds: seconds))
        guard let after = ProcessUsage(of: pid) else { return nil }
        return [
            "voluntary_switches": Double(after.voluntarySwitches - before.voluntarySwitches),
            "involuntary_switches": Double(after.involuntarySwitches - before.involuntarySwitches),
            "cpu_us": (after.processorTime - before.processorTime).microseconds,
            "seconds": seconds,
        ]
    }
}
