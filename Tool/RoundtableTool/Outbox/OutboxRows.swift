import Foundation
import Roundtable
import RoundtableToolSupport

/// The table of commands. For a terminal it is brief: ids are as short as identifies them, and a reason that several rows in a row have is
/// in the first of them.
struct OutboxRows {
    struct Row {
        let id: UUID
        let state: String
        let sender: String
        let name: String
        let version: Int
        let submitted: Date
        let bytes: Int
        let tries: String
        let why: String

        init(_ command: WaitingCommand, why: String) {
            (id, state, sender, name) = (command.id, command.state, command.sender, command.name)
            (version, submitted, bytes) = (command.version, command.submitted, command.payload.count)
            tries = command.attempts.map(String.init) ?? ""
            self.why = why
        }

        init(_ letter: DeadLetter, why: String) {
            (id, state, sender, name) = (letter.id, letter.state, letter.sender, letter.name)
            (version, submitted, bytes) = (letter.version, letter.submitted, letter.payload.count)
            tries = "\(letter.attempts)" + (letter.newAttempts > 0 ? "+\(letter.newAttempts)" : "")
            self.why = why
        }
    }

    private let isBrief: Bool
    private var table: StreamedTable
    private var dates = DateTexts()
    private var lastReason: String?
    /// The states in the order in which they were seen first, and how many rows have each.
    private var counts: [(state: String, count: Int)] = []

    init(isBrief: Bool) {
        self.isBrief = isBrief
        let columns: [(String, TextTable.Alignment)] =
            isBrief
            ? [
                ("id", .left), ("state", .left), ("sender", .left), ("command", .left), ("submitted", .left),
                ("tries", .right), ("why", .left),
            ]
            : [
                ("id", .left), ("state", .left), ("sender", .left), ("command", .left), ("version", .right),
                ("submitted", .left), ("bytes", .right), ("tries", .right), ("why", .left),
            ]
        table = StreamedTable(columns: columns, orWhenEmpty: "(no commands)")
    }

    var isEmpty: Bool { table.isEmpty }

    mutating func append(_ row: Row) {
        if let index = counts.firstIndex(where: { $0.state == row.state }) {
            counts[index].count += 1
        } else {
            counts.append((row.state, 1))
        }
        let (sender, name, date) = (row.sender.visibleLine, row.name.visibleLine, dates.text(row.submitted))
        guard isBrief else {
            return table.append([
                row.id.uuidString, row.state, sender, name, "\(row.version)", date, "\(row.bytes)", row.tries, row.why,
            ])
        }
        let reason = row.why == lastReason ? "" : row.why
        lastReason = row.why
        let tries = row.tries == "0" ? "" : row.tries
        table.append([
            row.id.briefText, row.state, sender, "\(name) \(row.version)", date, tries, reason,
        ])
    }

    /// Writes the remaining rows.
    mutating func end() { table.end() }

    /// The numbers of commands, as `230 commands: 228 waiting, 2 set aside`; nil where they are not shown.
    var summary: String? {
        guard isBrief, !counts.isEmpty else { return nil }
        let states = counts.map { "\($0.count.grouped) \($0.state)" }.joined(separator: ", ")
        return "\(counts.reduce(0) { $0 + $1.count }.of("command")): \(states)"
    }
}

extension UUID {
    /// The beginning, if it is random. Other versions, which apps may choose, begin with the time.
    var briefText: String { uuid.6 >> 4 == 4 ? String(uuidString.prefix(8)) : uuidString }
}
