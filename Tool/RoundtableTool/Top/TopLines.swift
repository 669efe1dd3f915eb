import Foundation
import Roundtable
import RoundtableCore
import RoundtableToolSupport

/// A sample as text for pipes and files: each line is one fact, begins with the time, and says in its second word what it is about.
struct TopLines {
    let model: TopModel
    let clock: ClockText

    /// Of more changes between two looks, only the last ones are printed.
    private static let mostChanges = 8

    init(_ model: TopModel, clock: ClockText = ClockText()) {
        self.model = model
        self.clock = clock
    }

    var text: String {
        guard let sample = model.sample else { return "" }
        let time = clock.seconds(sample.date)
        return facts(sample).map { kind, words in "\(time) \(kind) \(words)".visibleLine + "\n" }.joined()
    }

    private func facts(_ sample: TopSample) -> [(String, String)] {
        let status = sample.status
        let commits = model.rates.commits.map { "\($0.text)/s" } ?? "–"
        var facts = [("commits", "\(commits), \(status.participants.count.of("participant"))")]
        let holder = status.turnHolder.map { holder in
            let writing = holder.writing.map { " for \(StatusText.time($0))" } ?? ""
            return holder.name + writing + (holder.callSite.map { ", \($0)" } ?? "")
        }
        facts.append(("turn", status.controlBlock.state == .usable ? holder ?? "free" : "–"))
        facts += model.queue.map { ("waits", "\($0.name) for \(StatusText.time($0.waiting ?? .zero))") }
        if let writer = status.writeLock {
            if !writer.isParticipant { facts.append(("writes", "\(writer), no participant")) }
        } else if let obstruction = StatusText.obstruction(status) {
            facts.append(("writes", obstruction))
        }
        if let wal = status.wal {
            let growth = wal.growth.map { ", +\(Int(nearest: $0).grouped)/s" } ?? ""
            facts.append(
                ("wal", "\(wal.committedFrames.of("frame")), \(wal.backfilledFrames.grouped) in the database\(growth)")
            )
            facts += wal.pins.map { ("pin", "\($0)") }
        }
        facts += model.participants.map { participant in
            let rate = model.rates.commits(of: participant).map { "\($0.text)/s" } ?? "–"
            let words = [
                participant.name, StatusText.role(participant), StatusText.state(participant), "\(rate)",
                "longest wait \(StatusText.time(participant.longestWait))",
            ]
            return ("participant", words.joined(separator: ", "))
        }
        facts += model.newChanges.prefix(Self.mostChanges).reversed().map { change in
            let who = change.author.map { "'\($0)' (pid \(change.pid))" } ?? "(pid \(change.pid))"
            return ("change", "\(clock.milliseconds(change.time)), \(who), \(change.tables)")
        }
        facts += sample.warnings.map { ("\($0.severity.rawValue)", $0.message) }
        return facts
    }
}

/// A sample as one JSON object on one line.
struct TopJSON: Encodable {
    struct Rate: Encodable {
        let pid: Int32
        let author: String
        let commits: Double?
        let isExact: Bool?

        enum CodingKeys: String, CodingKey {
            case pid, author
            case commits = "commits_per_s"
            case isExact = "is_exact"
        }
    }

    struct Change: Encodable {
        let sequence: UInt64
        let author: String?
        let pid: Int32
        let time: String
        /// nil when any table may have been written.
        let tables: [String]?
    }

    let time: String
    let interval: Double?
    let commits: Double?
    let isExact: Bool?
    let rates: [Rate]
    let changes: [Change]
    let warnings: [DatabaseDiagnosis.Finding]
    let status: DatabaseStatus

    enum CodingKeys: String, CodingKey {
        case time, rates, changes, warnings, status
        case interval = "interval_s"
        case commits = "commits_per_s"
        case isExact = "is_exact"
    }

    /// nil before the first sample.
    init?(_ model: TopModel) {
        guard let sample = model.sample else { return nil }
        time = PrintedJSON.moment(sample.date)
        interval = model.rates.interval
        commits = model.rates.commits?.perSecond
        isExact = model.rates.commits?.isExact
        rates = model.participants.map { participant in
            let rate = model.rates.commits(of: participant)
            return Rate(
                pid: participant.pid,
                author: participant.author,
                commits: rate?.perSecond,
                isExact: rate?.isExact
            )
        }
        changes = model.changes.map { change in
            Change(
                sequence: change.sequence,
                author: change.author,
                pid: change.pid,
                time: PrintedJSON.moment(change.time),
                tables: change.tables == .fullDatabase ? nil : change.tables.names
            )
        }
        warnings = sample.warnings
        status = sample.status
    }

    var line: String { PrintedJSON.object(self) }
}

extension DatabaseChange.Tables {
    var names: [String] {
        switch self {
        case .some(let names): names.sorted()
        case .fullDatabase: []
        }
    }
}
