import Foundation

/// The figures of a campaign.
struct CampaignReport: Codable {
    var verb: String
    var seed: String
    var command: String
    var processes: Int
    var seconds = 0.0
    var isComplete = false
    /// The commits that the database holds, of all processes.
    var commits = 0
    var acknowledged = 0
    var sharedWrites = 0
    var commandsApplied = 0
    var historyChanges = 0
    var checks = 0
    /// The numbers of faults by kind.
    var faults: [String: Int] = [:]
    /// The errors of a full disk that processes met, each of which says so.
    var diskErrors = 0
    /// The number of killed processes that had made progress before.
    var killedAtWork = 0
    var lost = 0
    var corrupt = 0
    var anomalies = 0
    var stuck = 0
    /// The longest time without progress of a process, in ms, by the kind of the last fault before its end.
    var longestDelays: [String: Double] = [:]
    /// The longest time from the start of a process to its first progress, in ms.
    var longestStart = 0.0
    /// The longest time in which an observer was behind, in ms.
    var longestObserverLag = 0.0
    /// The longest time that a slot of a dead process stayed occupied, in s, as far as the checks saw it.
    var longestDeadSlot = 0.0
    var largestWAL = 0
    var largestDatabase = 0
    var leaks: [String: Leak] = [:]
    var problems: [String] = []

    /// A resource of a process that lives through the campaign.
    struct Leak: Codable {
        var early: Double
        var late: Double
        /// The largest difference that is not a leak.
        var bound: Double
        var isLeak: Bool { late - early > bound }
    }

    var isClean: Bool { problems.isEmpty }

    var table: String {
        var lines = ["\(verb): seed \(seed), \(processes) processes, \(Int(seconds)) s\(isComplete ? "" : " so far")"]
        func line(_ name: String, _ value: Any) {
            lines.append("  " + name.padding(toLength: 48, withPad: " ", startingAt: 0) + "\(value)")
        }
        line("commits", "\(commits) transactions, \(sharedWrites) shared writes, \(commandsApplied) commands")
        line("acknowledged", acknowledged)
        line("history changes", historyChanges)
        line("checks", checks)
        line("faults", faults.values.reduce(0, +))
        for (kind, count) in faults.sorted(by: { $0.key < $1.key }) { line("  \(kind)", count) }
        line("errors of a full disk", diskErrors)
        line("killed at work", killedAtWork)
        line("lost", lost)
        line("corrupt", corrupt)
        line("other anomalies", anomalies)
        line("stuck", stuck)
        for (kind, delay) in longestDelays.sorted(by: { $0.key < $1.key }) {
            line("longest delay, \(kind)", "\(Int(delay)) ms")
        }
        line("longest start", "\(Int(longestStart)) ms")
        line("longest observer lag", "\(Int(longestObserverLag)) ms")
        line("longest dead slot", "\(Int(longestDeadSlot)) s")
        line("largest WAL, database", "\(largestWAL / 1024) KiB, \(largestDatabase / 1024) KiB")
        for (name, leak) in leaks.sorted(by: { $0.key < $1.key }) {
            line(name, "\(leak.early) early, \(leak.late) late (bound: + \(leak.bound))\(leak.isLeak ? ": LEAK" : "")")
        }
        for problem in problems.prefix(20) { lines.append("  PROBLEM: \(problem)") }
        return lines.joined(separator: "\n")
    }

    /// The table in one line, for a line a minute.
    var summary: String {
        "\(Int(seconds)) s: \(commits) commits, \(faults.values.reduce(0, +)) faults, lost \(lost), corrupt \(corrupt), "
            + "anomalies \(anomalies), stuck \(stuck), longest delay \(Int(longestDelays.values.max() ?? 0)) ms"
    }

    func write(to path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try encoder.encode(self).write(to: URL(fileURLWithPath: path), options: .atomic)
    }
}

/// Prints a line at once, also where the output is a file.
func say(_ line: String) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}
