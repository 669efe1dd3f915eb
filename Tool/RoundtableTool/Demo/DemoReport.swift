import Foundation
import RoundtableCore
import RoundtableToolSupport

/// The results of the demo.
struct DemoReport: Codable, Equatable, Sendable {
    struct Participant: Codable, Equatable, Sendable {
        var name: String
        var pid: Int32
        var role: DemoCast.Player.Role
        var commits: Int
        /// The number of reads; nil for a writer.
        var reads: Int?
        var p50: Double
        var p99: Double
        var longestWait: Double
        var opening: Double
        var errors: Int
        var seen: DemoWidget.Seen?

        enum CodingKeys: String, CodingKey {
            case name, pid, role, commits, reads, errors, seen
            case p50 = "p50_us"
            case p99 = "p99_us"
            case longestWait = "longest_wait_ms"
            case opening = "open_ms"
        }
    }

    /// The commands that the interactive widget submitted, and their results.
    struct Commands: Codable, Equatable, Sendable {
        var submitted: Int
        var applied: Int
        /// Whether each applied command was applied once, in the order of submission.
        var isInOrder: Bool
        /// The number of times that the app wrote the snapshot file.
        var snapshots: Int
        /// The median time from the submission until the snapshot file showed the entry, in ms. `p99` is the 99th percentile.
        var p50: Double
        var p99: Double

        enum CodingKeys: String, CodingKey {
            case submitted, applied, snapshots
            case isInOrder = "in_order"
            case p50 = "submit_to_seen_p50_ms"
            case p99 = "submit_to_seen_p99_ms"
        }
    }

    var jain: Double
    var longestWait: Double
    var errors: Int
    /// The number of rows of earlier demos.
    var rowsBefore: Int
    var rowsExpected: Int
    var rowsFound: Int
    var lastEntry: Int64
    var integrity: String
    var seconds: Double
    var transactionsPerSecond: Double
    var participants: [Participant]
    /// The results of the interactive widget; nil without one.
    var commands: Commands?
    /// Whether the tool was built for release. Otherwise its figures say little of what a program has.
    var isOptimized = Self.isRelease
    /// The problems, as text for people.
    var problems: [String]

    #if DEBUG
        private static let isRelease = false
    #else
        private static let isRelease = true
    #endif

    enum CodingKeys: String, CodingKey {
        case jain, errors, integrity, seconds, participants, commands, problems
        case isOptimized = "optimized"
        case longestWait = "longest_wait_ms"
        case rowsBefore = "rows_before"
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
                reads: member.player.role == .readOnly ? report.count : nil,
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
        self.rowsBefore = rowsBefore
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
        // A process that died may have committed more than it could report.
        let isCounted = !members.contains { $0.failure != nil }
        if rowsFound < rowsExpected || rowsFound != rowsExpected && isCounted {
            problems.append("\(rowsExpected.grouped) rows were committed, \(rowsFound.grouped) are in the database")
        }
        problems += participants.compactMap { participant in
            guard let seen = participant.seen, seen.lastEntry != lastEntry else { return nil }
            return
                "'\(participant.name)' (pid \(participant.pid)): shows entry \(Int(seen.lastEntry).grouped), the last one is \(Int(lastEntry).grouped)"
        }
        commands = Self.commands(members, findings?.logged ?? [])
        if let commands {
            if commands.applied < commands.submitted || commands.applied != commands.submitted && isCounted {
                problems.append(
                    "\(commands.submitted.grouped) commands were submitted, \(commands.applied.grouped) applied"
                )
            }
            if !commands.isInOrder { problems.append("commands were not applied once each, in their order") }
        }
        if integrity != "ok" { problems.append("integrity_check: \(integrity)") }
    }

    private static func commands(_ members: [DemoFleet.Member], _ logged: [Int]) -> Commands? {
        guard let results = members.compactMap(\.report?.interactive).first else { return nil }
        return Commands(
            submitted: results.submitted,
            applied: logged.count,
            isInOrder: logged == Array(1..<(logged.count + 1)),
            snapshots: members.compactMap(\.report?.snapshots).reduce(0, +),
            p50: Double(results.p50) / 1e6,
            p99: Double(results.p99) / 1e6
        )
    }

    var json: String { PrintedJSON.object(self, isPretty: true) }
}
