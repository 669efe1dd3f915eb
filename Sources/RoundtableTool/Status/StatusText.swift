import Foundation
import Roundtable

/// A status for people, in 80 columns where names allow.
struct StatusText {
    private let status: DatabaseStatus

    init(_ status: DatabaseStatus) { self.status = status }

    var text: String {
        var lines = [status.path, ""]
        let facts = [
            ("files", files), ("format", format), ("sqlite", sqlite), ("schema", schema), ("wal", wal),
            ("checkpoints", checkpoints),
            ("control block", controlBlock), ("turn", turn), ("write lock", writeLock),
        ]
        lines += facts.compactMap { name, value in value.map { "  \(name.padded(to: 14)) \($0)" } }
        if !participants.isEmpty { lines += [""] + participants }
        let readers = longReads + otherPins
        if !readers.isEmpty { lines += [""] + readers }
        if !status.unknowns.isEmpty {
            lines += ["", "  Not known:"] + status.unknowns.map { "  - \($0)" }
        }
        return lines.map { $0 + "\n" }.joined()
    }

    private var files: String {
        [
            ("database", status.files.database), ("-wal", status.files.wal), ("-shm", status.files.walIndex),
            ("-journal", status.files.rollbackJournal),
        ].compactMap { name, size in size.map { "\(name) \(Self.size($0))" } }.joined(separator: " · ")
    }

    private var format: String {
        let mode =
            switch status.journalMode {
            case .wal: "WAL"
            case .rollback: "rollback journal"
            }
        let pages = status.pageSize.map { "pages of \($0) B" } ?? "empty file"
        return "\(mode) · \(pages)"
    }

    /// This program's. The bug is met in WAL mode only.
    private var sqlite: String {
        guard status.sqliteHasWALResetBug, status.journalMode == .wal else { return status.sqliteVersion }
        return "\(status.sqliteVersion), with the WAL-reset bug: leave checkpoints to Roundtable"
    }

    private var schema: String? {
        guard let schema = status.schema else { return nil }
        var parts = [Self.count(schema.tableCount, "table"), "user_version \(schema.userVersion)"]
        if let migrations = schema.appliedMigrations {
            let last = migrations.last.map { ", last '\($0)'" } ?? ""
            parts.append(Self.count(migrations.count, "migration") + last)
        }
        return parts.joined(separator: " · ")
    }

    private var wal: String? {
        status.wal.map { wal in
            let growth = wal.growth.map { " · growing by \(Self.count(Int($0.rounded()), "frame"))/s" } ?? ""
            let copied = "\(wal.backfilledFrames.grouped) of them in the database"
            return "\(Self.count(wal.committedFrames, "frame")) committed, \(copied)\(growth)"
        }
    }

    private var checkpoints: String? {
        guard let wal = status.wal else { return nil }
        var parts: [String] = []
        if let counters = wal.counters {
            parts = [
                "\(counters.checkpoints.grouped) made", "WAL begun anew \(Self.count(counters.walRestarts, "time"))",
                "held up \(Self.count(counters.heldUp, "time"))",
            ]
            if counters.byWriters > 0 { parts.append("\(counters.byWriters.grouped) made by writers in need") }
        }
        if let checkpointer = wal.checkpointer { parts.append("by \(checkpointer)") }
        if let holder = wal.checkpointLock { parts.append("\(holder) is at it") }
        return parts.isEmpty ? nil : parts.joined(separator: " · ")
    }

    private var controlBlock: String {
        switch status.controlBlock.state {
        case .usable: "layout version \(status.controlBlock.layoutVersion ?? 0)"
        case .absent: "none: nobody shares the database through Roundtable"
        case .otherVersion, .damaged, .unreadable: status.controlBlock.problem ?? "cannot be used"
        }
    }

    private var turn: String? {
        status.controlBlock.state == .usable
            ? status.turnHolder.map { "'\($0.author)' (pid \($0.pid))" } ?? "free" : nil
    }

    private var writeLock: String {
        guard let writer = status.writeLock else { return "free" }
        let name = writer.name.map { "'\($0)' " } ?? ""
        guard writer.isParticipant else { return "\(name)(pid \(writer.pid)), which does not take turns" }
        let participant = status.participants.first { $0.pid == writer.pid && $0.writing != nil }
        let since = participant?.writing.map { ", for \(Self.time($0))" } ?? ""
        let site = participant?.callSite.map { ", since \($0)" } ?? ""
        return "\(name)(pid \(writer.pid))\(since)\(site)"
    }

    private var participants: [String] {
        guard !status.participants.isEmpty else {
            return status.controlBlock.state == .usable ? ["  No participants."] : []
        }
        var table = TextTable(
            columns: [
                ("pid", .right), ("name", .left), ("role", .left), ("is", .left), ("waits", .right), ("writes", .right),
                ("turns", .right), ("longest wait", .right),
            ],
            indentation: "  "
        )
        table.rows = status.participants.map { participant in
            [
                "\(participant.pid)", participant.author,
                Self.role(participant),
                Self.condition(participant),
                participant.waiting.map(Self.time) ?? "–", participant.writing.map(Self.time) ?? "–",
                participant.turnsTaken.grouped, Self.time(participant.longestWait),
            ]
        }
        return table.lines
    }

    /// Those who read, a line each.
    private var longReads: [String] {
        status.participants.compactMap { participant in
            guard let read = participant.oldestRead else { return nil }
            let stopped = participant.liveness == .stopped ? ", stopped" : ""
            let name = "'\(participant.author)' (pid \(participant.pid)\(stopped))"
            let site = read.callSite.map { ", since \($0)" } ?? ""
            let who = "\(name) has been reading one moment for \(Self.time(read.age))\(site)"
            let held = read.heldFrames.map { $0 == 0 ? "" : ", and holds \(Self.count($0, "WAL frame")) back" } ?? ""
            return read.isPastLimit ? "  ! \(who)\(held): end the read, or advance its snapshot" : "  \(who)\(held)"
        }
    }

    /// Strangers that hold the WAL back, and participants by other means than a read.
    private var otherPins: [String] {
        let readers = Set(status.participants.filter { $0.oldestRead != nil }.map(\.pid))
        return (status.wal?.pins ?? []).filter { !readers.contains($0.holder.pid) }.map { pin in
            let stranger = pin.holder.isParticipant ? "" : ", which is no participant,"
            let age = pin.age.map { " for \(Self.time($0))" } ?? ""
            let site = pin.callSite.map { ", since \($0)" } ?? ""
            return "  ! \(pin.holder)\(stranger) holds \(Self.count(pin.heldFrames, "WAL frame")) back\(age)\(site)"
        }
    }

    private static func role(_ participant: DatabaseStatus.Participant) -> String {
        switch participant.role {
        case .readWrite: "writer"
        case .readOnly: "reader"
        case .unknown: "?"
        }
    }

    private static func condition(_ participant: DatabaseStatus.Participant) -> String {
        switch (participant.liveness, participant.state) {
        case (.dead, _): "dead"
        case (.stopped, .suspended): "suspended, stopped"
        case (.stopped, _): "stopped"
        case (_, .suspended): "suspended"
        case (_, .settingUp): "setting up"
        case (_, .joining): "joining"
        case (.alive, .present): "alive"
        case (.unknown, .present): "unknown"
        }
    }

    // MARK: Numbers

    private static func count(_ number: Int, _ noun: String) -> String {
        "\(number.grouped) \(noun)\(number == 1 ? "" : "s")"
    }

    private static func size(_ bytes: Int) -> String {
        switch bytes {
        case ..<10_240: "\(bytes.grouped) B"
        case ..<10_485_760: "\((bytes / 1024).grouped) KiB"
        default: "\((bytes / 1_048_576).grouped) MiB"
        }
    }

    private static func time(_ seconds: TimeInterval) -> String {
        switch seconds {
        case ..<0.0995: String(format: "%.1f ms", seconds * 1e3)
        case ..<0.9995: String(format: "%.0f ms", seconds * 1e3)
        case ..<119.5: String(format: "%.1f s", seconds)
        case ..<7170: String(format: "%.0f min", seconds / 60)
        default: String(format: "%.1f h", seconds / 3600)
        }
    }
}
