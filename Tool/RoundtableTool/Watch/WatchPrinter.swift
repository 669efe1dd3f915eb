import Foundation
import Roundtable
import RoundtableToolSupport

/// Prints each change on its own line, without buffering.
struct WatchPrinter {
    private let isJSON: Bool
    private let limit: Int?
    private var format: WatchFormat
    private var printed = 0

    init(isJSON: Bool, isFiltered: Bool, limit: Int?) {
        self.isJSON = isJSON
        self.limit = limit
        format = WatchFormat(isFiltered: isFiltered)
    }

    /// - returns: the reason why nothing more is printed; nil to continue.
    mutating func print(_ change: DatabaseChange) -> WatchEnd.Reason? {
        if let limit, printed >= limit { return .enough }
        do {
            let line = isJSON ? format.json(change) : format.text(change) + "\n"
            let text = isJSON ? line : Terminal.dressed(line, hang: WatchFormat.tablesColumn)
            guard try Terminal.writeIfRead(text) else { return .unread }
        } catch {
            return .unwritable(error)
        }
        printed += 1
        return printed == limit ? .enough : nil
    }
}

/// Formats the line for a change.
struct WatchFormat {
    /// Whether only some tables are observed. The number of commits that a change stands for is not known then.
    let isFiltered: Bool
    private var lastSequence: UInt64?

    /// The columns of the author and the pid.
    private static let authorWidth = 20
    /// The column of a line in which the tables begin, behind the time of twelve columns and the author.
    static let tablesColumn = 12 + 2 + authorWidth + 2

    private let clock: DateFormatter = {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.dateFormat = "HH:mm:ss.SSS"
        return formatter
    }()

    init(isFiltered: Bool) { self.isFiltered = isFiltered }

    mutating func text(_ change: DatabaseChange) -> String {
        let commits = commits(in: change)
        let author = change.author.map { $0.displayWidth <= 24 ? $0 : $0.prefix(columns: 23) + "…" }
        let who =
            switch (author, change.pid) {
            case (let author?, let pid?): "\(author) (pid \(pid))"
            case (nil, let pid?): "pid \(pid)"
            case (let author?, nil): author
            case (nil, nil): change.detail == .several ? "several programs" : "unknown program"
            }
        var what = change.tables.listed ?? "anything may have changed"
        switch (change.detail, commits) {
        case (.several, nil): what += " (several commits reported as one)"
        case (_, let commits?) where commits > 1: what += " (\(Int(clamping: commits).grouped) commits reported as one)"
        default: break
        }
        // Names come from other programs, and must not move the cursor.
        let safe = "\(who.padded(to: Self.authorWidth))  \(what)".map { $0.isNewline || $0.isControl ? "?" : $0 }
        return "\(clock.string(from: change.time))  \(String(safe))"
    }

    mutating func json(_ change: DatabaseChange) -> String {
        let line = Line(
            sequence: change.sequence,
            author: change.author,
            pid: change.pid,
            tables: change.tables == .fullDatabase ? nil : change.tables.names,
            derivedTables: change.tables.derivedTables.sorted(),
            foreign: !change.isOwn,
            time: PrintedJSON.moment(change.time),
            detail: change.detail,
            commits: commits(in: change)
        )
        return PrintedJSON.object(line)
    }

    /// The number of commits that a change stands for; nil when it is not known.
    private mutating func commits(in change: DatabaseChange) -> UInt64? {
        defer { lastSequence = change.sequence }
        if change.detail == .commit { return 1 }
        // Sequences also count commits of tables that are not observed.
        guard !isFiltered, let lastSequence, change.sequence > lastSequence else { return nil }
        return change.sequence - lastSequence
    }

    private struct Line: Encodable {
        let sequence: UInt64
        let author: String?
        let pid: Int32?
        /// The changed tables; nil if any table may have changed.
        let tables: [String]?
        /// The changed tables that belong to derived tables.
        let derivedTables: [String]
        let foreign: Bool
        let time: String
        let detail: DatabaseChange.Detail
        let commits: UInt64?

        enum CodingKeys: String, CodingKey {
            case sequence, author, pid, tables, foreign, time, detail, commits
            case derivedTables = "derived_tables"
        }
    }
}
