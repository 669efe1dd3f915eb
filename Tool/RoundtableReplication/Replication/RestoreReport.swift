import Foundation
import GRDB
import Roundtable
import RoundtableToolSupport

/// What a restore has done.
struct RestoreReport: Encodable {
    let path: String
    /// Without credentials.
    let url: String
    /// The number of the term whose state it is; 0 before the first promotion.
    let term: UInt64
    /// The number of the current term at the URL. If it is higher than ``term``, the writer of the current term had no such state there.
    let currentTerm: UInt64
    /// The term in which the restored database is the writer's; nil: it is a copy.
    let promotedTerm: UInt64?
    let transaction: String
    /// The time of that transaction.
    let time: String
    /// The time that was asked for; nil: the newest state.
    let at: String?
    let bytes: Int
    let seconds: Double
    let isWAL: Bool
    /// The tables of the app.
    let tables: Int
    /// nil when no `DatabaseMigrator` was ever used.
    let migrations: [String]?
    let checks: Checks
    /// The folder to which the database that was there has been moved; nil when there was nothing.
    let replaced: String?
    /// The commands in the outbox beside the database, which will be applied to it.
    let waitingCommands: Int

    struct Checks: Encodable {
        /// `ok`: there is no report otherwise.
        let integrityCheck = "ok"
        let derivedTables: [DerivedTable]
        /// What `roundtable doctor` would find that was restored so.
        let findings: [DatabaseDiagnosis.Finding]

        enum CodingKeys: String, CodingKey {
            case findings
            case derivedTables = "derived_tables"
            case integrityCheck = "integrity_check"
        }
    }

    struct DerivedTable: Encodable {
        let name: String
        let state: DerivedTablesStatus.Table.State
    }

    enum CodingKeys: String, CodingKey {
        case path, url, term, transaction, time, at, bytes, seconds, tables, migrations, checks, replaced
        case isWAL = "wal"
        case promotedTerm = "promoted_term"
        case currentTerm = "current_term"
        case waitingCommands = "waiting_commands"
    }

    var json: String { PrintedJSON.object(self, isPretty: true) }

    var lines: [StyledText] {
        let wanted = at.map { ", the last not later than \($0)" } ?? ", the newest"
        var facts = [
            path, "",
            "  restored    transaction \(transaction) of \(time)\(wanted)",
            "  from        \(url)\(term == 0 ? "" : ", term \(term)")",
            "  size        \(bytes.byteSize), in \(seconds.seconds)",
            "  schema      \(schema)",
            "  checked     integrity_check: ok\(derivedTables)",
        ]
        if let replaced { facts.append("  replaced    what was there is in \(replaced)") }
        if waitingCommands > 0 {
            let verb = waitingCommands == 1 ? "waits" : "wait"
            facts.append(
                "  outbox      \(waitingCommands.of("command")) \(verb), and will be applied to the restored database"
            )
        }
        var lines = facts.map { StyledText($0) }
        if promotedTerm == nil, term < currentTerm {
            let what = "of an earlier writer: there is no such state of the current one, in term \(currentTerm)"
            lines.append(StyledText("  ! \(what)", .warning))
        }
        if let promotedTerm {
            lines.append(StyledText("  promoted    this machine is the writer now, in term \(promotedTerm)"))
            let next = "roundtable replicate \(path.shellQuotedPath) --to \(url.shellQuoted)"
            lines.append(StyledText("  next        \(next)"))
        }
        for finding in checks.findings {
            lines += ["", StyledText("  ! \(finding.message)", TextStyle(finding.severity))]
            lines.append(StyledText("    next  \(finding.advice)"))
        }
        return lines
    }

    private var schema: String {
        let migrations = migrations.map { names in
            names.last.map { ", \(names.count.of("migration")), the last '\($0)'" } ?? ", no migration"
        }
        return tables.of("table") + (migrations ?? "") + (isWAL ? ", WAL mode" : ", rollback-journal mode")
    }

    private var derivedTables: String {
        checks.derivedTables.isEmpty
            ? ""
            : "; \(checks.derivedTables.count { $0.state == .ready }) of \(checks.derivedTables.count.of("derived table")) ready"
    }
}

/// A restored database that has not got its name yet, and was found whole.
struct CheckedDatabase {
    let bytes: Int
    let isWAL: Bool
    let tables: Int
    let migrations: [String]?
    let checks: RestoreReport.Checks

    /// - throws: `ToolError` when the file is no whole database.
    init(at path: String, shownAs shown: String, from url: ReplicaURL, progress: @escaping () -> Void) throws {
        let place = URL(fileURLWithPath: path)
        let diagnosis = try DatabaseDiagnosis(ofDatabaseAt: place, checking: .full, progress: progress)
        func explain(_ text: String) -> String { text.replacingOccurrences(of: path, with: shown) }
        let damage = diagnosis.findings.first { [.corrupt, .notADatabase].contains($0.topic) }
        if let what = damage?.message ?? diagnosis.unknowns.first(where: { $0.hasPrefix("The content:") }) {
            throw ToolError(
                "\(url.shown): the backup is damaged, and was not restored: \(explain(what)) Restore an earlier state with --at, or another replica."
            )
        }
        let status = try DatabaseStatus(ofDatabaseAt: place)
        guard let schema = status.schema else {
            throw ToolError(
                "\(url.shown): what was restored cannot be read: \(explain(status.unknowns.joined(separator: " ")))"
            )
        }
        bytes = status.files.database
        isWAL = status.journalMode == .wal
        tables = try schema.tableCount - Self.litestreamTables(place)
        migrations = schema.appliedMigrations
        let findings = diagnosis.findings.filter { [.unfinishedDerivedTable, .brokenDerivedTable].contains($0.topic) }
        checks = RestoreReport.Checks(
            derivedTables: (status.derivedTables?.tables ?? []).map {
                RestoreReport.DerivedTable(name: $0.name, state: $0.state)
            },
            findings: findings.map { finding in
                var finding = finding
                finding.location = explain(finding.location)
                return finding
            }
        )
    }

    /// How many tables Litestream has created for itself.
    private static func litestreamTables(_ place: URL) throws -> Int {
        let queue = try Onlooker(place).connection(waitingUpTo: .seconds(1))
        let count = try queue.read { db in
            let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name GLOB '_litestream_*'"
            return try Int.fetchOne(db, sql: sql) ?? 0
        }
        try queue.close()
        return count
    }
}
