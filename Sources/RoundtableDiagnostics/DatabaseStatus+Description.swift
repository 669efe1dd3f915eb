import RoundtableCore

extension DatabaseStatus: CustomStringConvertible {
    /// A summary of a few lines, for logs. Its wording may change. `roundtable status` prints more.
    public var description: String {
        var lines = [path]
        let mode = journalMode == .wal ? "WAL" : "rollback journal"
        let sizes = [("", files.database), (", -wal ", files.wal ?? 0)].map { "\($0)\($1.byteSize)" }.joined()
        lines.append("\(mode)\(isEncrypted ? ", encrypted" : ""), \(sizes)")
        if let schema {
            let last = schema.appliedMigrations?.last.map { ", last migration '\($0)'" } ?? ""
            lines.append("schema: \(schema.tableCount.of("table")), user_version \(schema.userVersion)\(last)")
        }
        if let wal {
            let copied = "\(wal.backfilledFrames.grouped) of them in the database file"
            lines.append("WAL: \(wal.committedFrames.of("frame")) committed, \(copied)")
        }
        if let problem = controlBlock.problem { lines.append("control block: \(problem)") }
        for participant in participants { lines.append("participant: \(Self.summary(of: participant))") }
        if let writeLock { lines.append("write lock: \(writeLock)") }
        for lock in obstructingLocks ?? [] { lines.append("read lock on \(lock.name): \(lock.party)") }
        if let outbox {
            let letters = outbox.deadLetters.map { ", \($0.grouped) set aside" } ?? ""
            lines.append("outbox: \(outbox.waiting.of("command")) waiting\(letters)")
        }
        for role in roles ?? [] { lines.append("role: \(role)") }
        lines += unknowns.map { "not known: \($0)" }
        return lines.joined(separator: "\n  ")
    }

    private static func summary(of participant: ParticipantStatus) -> String {
        let role =
            switch participant.role {
            case .readWrite: "read-write"
            case .readOnly: "read-only"
            case .unknown: "role unknown"
            }
        var parts = [participant.name, role]
        if participant.liveness != .alive { parts.append("\(participant.liveness)") }
        if participant.isOfOtherFile { parts.append("has another file open") }
        if participant.hasTurn { parts.append("has the turn") }
        return parts.joined(separator: ", ")
    }
}

extension DatabaseDiagnosis: CustomStringConvertible {
    /// The findings and what is not known, one on each line. The wording may change; programs rely on ``Finding/topic``.
    public var description: String {
        let lines = findings.map(\.description) + unknowns.map { "not known: \($0)" }
        return ([path] + (lines.isEmpty ? ["nothing is wrong"] : lines)).joined(separator: "\n  ")
    }
}

extension DatabaseDiagnosis.Finding: CustomStringConvertible {
    public var description: String { "\(severity.rawValue): \(message) (\(location)) \(advice)" }
}

extension RoleStatus: CustomStringConvertible {
    /// Such as `'sync': 'app' (pid 12), 1 waits`. The wording may change.
    public var description: String {
        let waits = waiting.isEmpty ? "" : ", \(waiting.count.grouped) \(waiting.count == 1 ? "waits" : "wait")"
        return "'\(name)': \(holder.map { "\($0)" } ?? "free")\(isSuspended ? ", suspended" : "")\(waits)"
    }
}
