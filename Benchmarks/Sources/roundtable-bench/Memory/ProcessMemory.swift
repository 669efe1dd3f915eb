import Foundation

/// What memory a process has in RAM, in bytes, as Linux tells it (proc(5), `smaps_rollup`).
struct ProcessMemory {
    /// All of it, however many processes share it.
    var resident = 0.0
    /// A page that n processes have counts as an n-th of it: over all processes, the sum is what they take together.
    var proportional = 0.0
    /// What no other process has: it is free again when the process ends.
    var unshared = 0.0
    var threads = 0.0

    init() {}

    init(of pid: Int32) throws {
        let rollup = try Self.kilobytes("/proc/\(pid)/smaps_rollup")
        guard let resident = rollup["Rss:"], let proportional = rollup["Pss:"] else {
            throw ParticipantProcess.Failure(description: "/proc/\(pid)/smaps_rollup tells no Rss and Pss")
        }
        self.resident = resident * 1024
        self.proportional = proportional * 1024
        unshared =
            ["Private_Clean:", "Private_Dirty:", "Private_Hugetlb:"].reduce(0) { $0 + rollup[$1, default: 0] } * 1024
        threads = try Self.kilobytes("/proc/\(pid)/status")["Threads:", default: 0]
    }

    private static func kilobytes(_ path: String) throws -> [String: Double] {
        let text = try String(contentsOfFile: path, encoding: .utf8)
        return text.split(separator: "\n").reduce(into: [:]) { values, line in
            let words = line.split(whereSeparator: \.isWhitespace)
            if words.count >= 2, let value = Double(words[1]) { values[String(words[0])] = value }
        }
    }

    static func + (a: ProcessMemory, b: ProcessMemory) -> ProcessMemory {
        var sum = a
        sum.resident += b.resident
        sum.proportional += b.proportional
        sum.unshared += b.unshared
        sum.threads += b.threads
        return sum
    }
}
