import Foundation
import Roundtable
import RoundtableJobs
import RoundtableReplication
import RoundtableToolSupport

/// A status as text for people, in 80 columns where the names are short enough.
struct StatusText {
    let status: DatabaseStatus
    /// nil when the database has no tables of jobs, or they are not shown.
    let jobs: JobsStatus?
    private let warnings: [DatabaseDiagnosis.Finding]

    init(_ report: StatusReport) { self.init(report.status, jobs: report.jobs, warnings: report.warnings) }

    init(_ status: DatabaseStatus, jobs: JobsStatus? = nil, warnings: [DatabaseDiagnosis.Finding] = []) {
        (self.status, self.jobs, self.warnings) = (status, jobs, warnings)
    }

    var text: String { lines.plainText }

    var lines: [StyledText] {
        let facts: [(String, String?)] = [
            ("files", files), ("format", format), ("sqlite", sqlite), ("schema", schema), ("wal", wal),
            ("checkpoints", checkpoints),
            ("control block", controlBlock), ("other blocks", otherControlBlocks), ("turn", turn),
            ("write lock", writeLock), ("outbox", outbox), ("derived tables", derivedTables), ("roles", roles),
            ("replication", replication), ("follows", replica),
        ]
        var lines: [StyledText] = [StyledText(status.path), ""] + verdict + [""]
        lines += facts.compactMap { name, value in value.map { Self.fact(name, $0) } }
        if let fence { lines.append(Self.fact("fenced", fence, .warning)) }
        lines += (status.outboxTravel ?? []).map { OutboxTravelText.fact($0, at: Date()) }
        if !participants.isEmpty { lines += [""] + participants }
        if let jobs { lines += [""] + JobsText(jobs: jobs).lines }
        let readers = frozenCheckpointer + longReads + otherPins
        if !readers.isEmpty { lines += [""] + readers }
        if !status.unknowns.isEmpty {
            lines += ["", "  Not known:"] + status.unknowns.map { StyledText("  - \($0)") }
        }
        return lines
    }

    /// The worst of what is wrong, and what helps.
    private var verdict: [StyledText] {
        guard let worst = warnings.first else {
            guard status.unknowns.isEmpty else { return ["  · Nothing is wrong, as far as it is known."] }
            return [StyledText("  ✓ Nothing is wrong.", .good)]
        }
        let message = StyledText("  \(DoctorText.mark(worst.severity)) \(worst.message)", TextStyle(worst.severity))
        var lines = [message, StyledText("    \(worst.advice)")]
        let more = warnings.count - 1
        if more > 0 { lines.append(StyledText("    \(more) more: \(Terminal.commandLine("doctor", status.path))")) }
        return lines
    }

    private static func fact(_ name: String, _ value: String, _ style: TextStyle = .plain) -> StyledText {
        StyledText("  \(name.padded(to: 14)) \(value)", style)
    }

    private var roles: String? { status.roles.map { $0.map(\.description).joined(separator: " · ") } }

    private var files: String {
        [
            ("database", status.files.database), ("-wal", status.files.wal), ("-shm", status.files.walIndex),
            ("-journal", status.files.rollbackJournal), ("-salt", status.files.salt),
        ].compactMap { name, size in size.map { "\(name) \($0.byteSize)" } }.joined(separator: " · ")
    }

    private var format: String {
        let mode =
            switch status.journalMode {
            case .wal: "WAL"
            case .rollback: "rollback journal"
            }
        let pages = status.pageSize.map { "pages of \($0) B" } ?? "empty file"
        return "\(mode) · \(pages)\(status.isEncrypted ? " · encrypted" : "")"
    }

    /// The SQLite version of this program. The bug affects only WAL mode.
    private var sqlite: String {
        guard status.sqliteHasWALResetBug, status.journalMode == .wal else { return status.sqliteVersion }
        return "\(status.sqliteVersion), with the WAL-reset bug: leave checkpoints to Roundtable"
    }

    private var schema: String? {
        guard let schema = status.schema else { return nil }
        let own = schema.roundtableTableCount ?? 0
        let tables = schema.tableCount.of("table") + (own > 0 ? ", and \(own) of Roundtable's" : "")
        var parts = [tables, "user_version \(schema.userVersion)"]
        if let migrations = schema.appliedMigrations {
            let last = migrations.last.map { ", last '\($0)'" } ?? ""
            parts.append(migrations.count.of("migration") + last)
        }
        return parts.joined(separator: " · ")
    }

    private var wal: String? {
        status.wal.map { wal in
            let growth = wal.growth.flatMap { $0 < 0.5 ? nil : " · growing by \(Int(nearest: $0).of("frame"))/s" } ?? ""
            if wal.committedFrames == 0 { return "empty" + growth }
            let size = (wal.committedFrames * (status.pageSize ?? 4096)).byteSize
            let copied =
                switch wal.backfilledFrames {
                case 0: "none"
                case wal.committedFrames: "all"
                default: wal.backfilledFrames.grouped
                }
            return "\(wal.committedFrames.of("frame")) (\(size)) committed, \(copied) copied to the database\(growth)"
        }
    }

    private var checkpoints: String? {
        guard let wal = status.wal else { return nil }
        var parts: [String] = []
        if let counters = wal.counters {
            parts = [
                "\(counters.checkpoints.grouped) made", "WAL restarted \(counters.walRestarts.of("time"))",
                "held up \(counters.heldUp.of("time"))",
            ]
            if counters.byWriters > 0 { parts.append("\(counters.byWriters.grouped) made by writers in their turns") }
        }
        if let checkpointer = wal.checkpointer { parts.append("by \(checkpointer)") }
        if let holder = wal.checkpointLock { parts.append("\(holder) makes one now") }
        if let failure = wal.failure { parts.append("\(failure)") }
        return parts.isEmpty ? nil : parts.joined(separator: " · ")
    }

    private var controlBlock: String {
        switch status.controlBlock.state {
        case .usable: "layout version \(status.controlBlock.layoutVersion ?? 0)"
        case .absent: "none: no process shares the database through Roundtable"
        case .damaged, .unreadable: status.controlBlock.problem ?? "cannot be used"
        }
    }

    /// The control blocks of programs that use another version of Roundtable.
    private var otherControlBlocks: String? {
        let others = status.otherControlBlocks.map { other in
            let pids = other.pids.map { "pid \($0)" }.joined(separator: ", ")
            return "layout version \(other.layoutVersion), \(pids.isEmpty ? "used by no process" : pids)"
        }
        return others.isEmpty ? nil : others.joined(separator: " · ")
    }

    private var turn: String? {
        status.controlBlock.state == .usable
            ? status.turnHolder.map { $0.name } ?? "free" : nil
    }

    /// Who keeps all writers out without writing; nil when no process does.
    static func obstruction(_ status: DatabaseStatus) -> String? {
        status.obstructingLocks?.first { $0.kind == .write }.map {
            "\($0.party) keeps all writers out, by a read lock on byte 120 of -shm"
        }
    }

    private var writeLock: String {
        guard let writer = status.writeLock else { return Self.obstruction(status) ?? "free" }
        let name = writer.name.map { "'\($0)' " } ?? ""
        guard writer.isParticipant else { return "\(name)(\(writer.pidText)), which does not take turns" }
        let participant = status.participants.first { $0.party == writer && $0.writing != nil }
        let since = participant?.writing.map { ", for \(Self.time($0))" } ?? ""
        let site = participant?.callSite.map { ", since \($0)" } ?? ""
        return "\(name)(\(writer.pidText))\(since)\(site)"
    }

    private var participants: [StyledText] {
        guard !status.participants.isEmpty else {
            return status.controlBlock.state == .usable ? ["  No participants."] : []
        }
        var table = TextTable(
            columns: [
                ("pid", .right), ("name", .left), ("role", .left), ("state", .left), ("waits", .right),
                ("writes", .right),
                ("turns", .right), ("longest wait", .right),
            ],
            indentation: "  "
        )
        table.rows = status.participants.map { participant in
            [
                Self.pid(participant), participant.author,
                Self.role(participant),
                Self.state(participant),
                participant.waiting.map(Self.time) ?? "–", participant.writing.map(Self.time) ?? "–",
                participant.turnsTaken.grouped, Self.time(participant.longestWait),
            ]
        }
        let isAnyElsewhere = status.participants.contains(where: \.isInOtherPIDNamespace)
        let lines = table.styledLines { Self.style(status.participants[$0]) }
        return lines + (isAnyElsewhere ? ["", StyledText("  \(Self.elsewhere)  in another pid namespace")] : [])
    }

    /// The style of the condition of a participant.
    static func style(_ participant: ParticipantStatus) -> TextStyle {
        if participant.isOfOtherFile { return .bad }
        return switch (participant.liveness, participant.state) {
        case (.dead, _), (.stopped, .present), (.stopped, .joining), (.stopped, .settingUp): .bad
        case (_, .suspended), (.unknown, _): .warning
        default: participant.refusesWrites ? .warning : .plain
        }
    }

    /// The stopped process that holds SQLite's lock for checkpoints, whether it is a participant or not.
    private var frozenCheckpointer: [StyledText] {
        guard let holder = status.wal?.checkpointLock, holder.liveness == .stopped else { return [] }
        let stranger = holder.isParticipant ? "" : ", which is no participant,"
        return [StyledText("  ! \(holder)\(stranger) holds SQLite's lock for checkpoints", .bad)]
    }

    /// The participants that are reading, one on each line.
    private var longReads: [StyledText] {
        status.participants.compactMap { participant in
            guard let read = participant.oldestRead else { return nil }
            let stopped = participant.liveness == .stopped ? ", stopped" : ""
            let name = "'\(participant.author)' (\(participant.pidText)\(stopped))"
            let site = read.callSite.map { ", since \($0)" } ?? ""
            let who = "\(name) has been reading one moment for \(Self.time(read.age))\(site)"
            let held = read.heldFrames.map { $0 == 0 ? "" : ", and holds \($0.of("WAL frame")) back" } ?? ""
            return read.isPastLimit ? StyledText("  ! \(who)\(held)", .warning) : StyledText("  \(who)\(held)")
        }
    }

    /// Other processes that hold the WAL back, and participants that do so by other means than a read. It is not known for how long a
    /// process has done so that is not a participant, so each such process is marked, except Litestream.
    private var otherPins: [StyledText] {
        let readers = status.participants.filter { $0.oldestRead != nil }
        let pins = (status.wal?.pins ?? []).filter { pin in !readers.contains { pin.holder.isSame(as: $0) } }
        return pins.map { pin in
            // Litestream holds a read transaction at all times, so that no other process restarts the WAL.
            let isReplicator = pin.holder.pid == status.replication?.litestream
            let isStranger = !pin.holder.isParticipant && !isReplicator
            let stranger = isReplicator ? ", which replicates it," : isStranger ? ", which is no participant," : ""
            let age = pin.age.map { " for \(Self.time($0))" } ?? ""
            let site = pin.callSite.map { ", since \($0)" } ?? ""
            let isWorthwhile =
                pin.holder.liveness == .stopped || isStranger
                || LongRead.Limit().isPassed(age: pin.age ?? .zero, heldFrames: pin.heldFrames)
            let held = "\(pin.holder)\(stranger) holds \(pin.heldFrames.of("WAL frame")) back\(age)\(site)"
            return isWorthwhile ? StyledText("  ! \(held)", .warning) : StyledText("  \(held)")
        }
    }

    /// Marks a pid of another namespace in tables, where the words would push the other columns aside.
    static let elsewhere = "↗"

    static func pid(_ participant: ParticipantStatus) -> String {
        "\(participant.pid)\(participant.isInOtherPIDNamespace ? " \(elsewhere)" : "")"
    }

    static func role(_ participant: ParticipantStatus) -> String {
        switch participant.role {
        case .readWrite: "writer"
        case .readOnly: "reader"
        case .unknown: "?"
        }
    }

    /// What the participant is doing, or what keeps it from that.
    static func state(_ participant: ParticipantStatus) -> String {
        if participant.isOfOtherFile { return "other file!" }
        return switch (participant.liveness, participant.state) {
        case (.dead, _): "dead"
        case (.stopped, .suspended): "suspended, stopped"
        case (.stopped, _): "stopped"
        case (_, .suspended): "suspended"
        case (_, .settingUp): "setting up"
        case (_, .joining): "joining"
        case (.unknown, .present): "unknown"
        case (.alive, .present):
            if participant.refusesWrites {
                "writes refused"
            } else if participant.writing != nil {
                "writes"
            } else if participant.waiting != nil {
                "waits"
            } else {
                participant.oldestRead == nil ? "idle" : "reads"
            }
        }
    }

    // MARK: Numbers

    static func time(_ time: Duration) -> String {
        let seconds = time / .seconds(1)
        return switch seconds {
        case ..<0.0995: String(format: "%.1f ms", seconds * 1e3)
        case ..<0.9995: String(format: "%.0f ms", seconds * 1e3)
        case ..<119.5: String(format: "%.1f s", seconds)
        case ..<7170: String(format: "%.0f min", seconds / 60)
        default: String(format: "%.1f h", seconds / 3600)
        }
    }
}
