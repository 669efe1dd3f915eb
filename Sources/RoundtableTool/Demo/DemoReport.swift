import Foundation

/// What the demo found.
struct DemoReport: Codable, Equatable, Sendable {
    struct Participant: Codable, Equatable, Sendable {
        var name: String
        var pid: Int32
        var role: DemoCast.Player.Role
        var commits: Int
        /// nil for writers.
        var reads: Int?
        var p50: Double
        var p99: Double
        var longestWait: Double
        var opening: Double
        var errors: Int
        /// nil for writers.
        var seen: DemoWidget.Seen?

        enum CodingKeys: String, CodingKey {
            case name, pid, role, commits, reads, errors, seen
            case p50 = "p50_us"
            case p99 = "p99_us"
            case longestWait = "longest_wait_ms"
            case opening = "open_ms"
        }
    }

    var jain: Double
    var longestWait: Double
    var errors: Int
    var rowsExpected: Int
    var rowsFound: Int
    var lastEntry: Int64
    var integrity: String
    var seconds: Double
    var transactionsPerSecond: Double
    var participants: [Participant]
    /// In plain words, what is wrong.
    var problems: [String]

    enum CodingKeys: String, CodingKey {
        case jain, errors, integrity, seconds, participants, problems
        case longestWait = "longest_wait_ms"
        case rowsExpected = "rows_expected"
        case rowsFound = "rows_found"
        case lastEntry = "last_entry"
        case transactionsPerSecond = "tx_per_s"
    }

    var isGood: Bool { problems.isEmpty }

    init(members: [DemoFleet.Member], rowsBefore: Int, findings: DemoDatabase.Findings?, seconds: Double) {
        participants = members.map { member in
            let report = member.report ?? PeerReport(phase: .ready)
            let isWriter = member.player.role == .readWrite
            return Participant(
                name: member.player.name,
                pid: member.pid,
                role: member.player.role,
                commits: isWriter ? report.count : 0,
                reads: isWriter ? nil : report.count,
                p50: Double(report.p50) / 1e3,
                p99: Double(report.p99) / 1e3,
                longestWait: Double(report.longestWait) / 1e6,
                opening: Double(report.opening) / 1e6,
                errors: member.errorCount,
                seen: report.seen
            )
        }
        let writers = participants.filter { $0.role == .readWrite }
        let commits = writers.map(\.commits)
        jain = jainIndex(commits)
        longestWait = writers.map(\.longestWait).max() ?? 0
        errors = participants.reduce(0) { $0 + $1.errors }
        rowsExpected = rowsBefore + commits.reduce(0, +)
        rowsFound = findings?.rows ?? 0
        let lastEntry = findings?.lastEntry ?? 0
        self.lastEntry = lastEntry
        integrity = findings?.integrity ?? "there is no database"
        self.seconds = seconds
        transactionsPerSecond = seconds > 0 ? Double(commits.reduce(0, +)) / seconds : 0
        problems = members.compactMap { member in
            (member.failure ?? member.report?.firstError).map { "'\(member.player.name)' (pid \(member.pid)): \($0)" }
        }
        // Who died may have committed more than it could tell.
        let isCounted = !members.contains { $0.failure != nil }
        if rowsFound < rowsExpected || rowsFound != rowsExpected && isCounted {
            problems.append("\(rowsExpected) rows were committed, \(rowsFound) are in the database")
        }
        problems += participants.compactMap { participant in
            guard let seen = participant.seen, seen.lastEntry != lastEntry else { return nil }
            return
                "'\(participant.name)' (pid \(participant.pid)): shows entry \(seen.lastEntry), the last one is \(lastEntry)"
        }
        if integrity != "ok" { problems.append("integrity_check: \(integrity)") }
    }

    var json: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) + "\n" } ?? ""
    }
}

// MARK: - For people

extension DemoReport {
    var text: String {
        var table = TextTable(
            columns: [
                ("process", .left), ("pid", .right), ("commits", .right), ("p50 ms", .right), ("p99 ms", .right),
                ("longest wait ms", .right), ("errors", .right),
            ],
            indentation: "  "
        )
        table.rows = participants.map { participant in
            let work = participant.reads.map { "\($0.grouped) reads" } ?? participant.commits.grouped
            return [
                participant.name, "\(participant.pid)", work, String(format: "%.3f", participant.p50 / 1e3),
                String(format: "%.2f", participant.p99 / 1e3), String(format: "%.1f", participant.longestWait),
                "\(participant.errors)",
            ]
        }
        let sameRows = rowsExpected == rowsFound
        let facts: [(Bool?, String, String)] =
            [
                (nil, "commits in all", "\(Int(transactionsPerSecond.rounded()).grouped) a second"),
                (nil, "fairness among writers (Jain)", String(format: "%.3f", jain) + ", where 1 is even"),
                (nil, "longest wait to write", String(format: "%.1f ms", longestWait)),
                (errors == 0, "errors", "\(errors)"),
                (
                    sameRows, "rows committed, rows found",
                    "\(rowsExpected.grouped) \(sameRows ? "=" : "≠") \(rowsFound.grouped)"
                ),
                (integrity == "ok", "integrity_check", integrity),
            ] + participants.compactMap(\.seen).flatMap(widgetFacts)
        let factLines = facts.map { (isGood: Bool?, name, value) in
            "  \(isGood.map { $0 ? "✓" : "✗" } ?? "·") \(name.padded(to: 33)) \(value)"
        }
        let lines = table.lines + [""] + factLines + problems.map { "  ! \($0)" }
        return lines.map { $0 + "\n" }.joined()
    }

    private func widgetFacts(_ seen: DemoWidget.Seen) -> [(Bool?, String, String)] {
        let isCurrent = seen.lastEntry == lastEntry
        return [
            (
                isCurrent, "last entry, what the widget shows",
                "\(Int(lastEntry).grouped) \(isCurrent ? "=" : "≠") \(Int(seen.lastEntry).grouped)"
            ),
            (
                nil, "commit → the widget is told",
                String(format: "%.2f ms (p50), %.2f ms (p99)", seen.p50 / 1e3, seen.p99 / 1e3)
            ),
        ]
    }
}
