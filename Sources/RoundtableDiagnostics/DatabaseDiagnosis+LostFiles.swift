import Foundation
import RoundtableCore
import RoundtableKernel

/// A participant that has other files open than those that are in their places (rules W12, P15).
struct LostParticipant {
    let process: SharingProcess
    /// Whether the database file is another one; otherwise, only `-wal` or `-shm`.
    let isDatabase: Bool
    /// Where its files can be copied from; nil when the system does not show it.
    let descriptors: LostDescriptors?

    static func all(ofDatabaseAt path: String) -> [LostParticipant] {
        let records = (try? ControlBlock.open(forDatabaseAt: path, writable: false))?.participants() ?? []
        let files = FileStamps(ofDatabaseAt: path)
        return records.compactMap { LostParticipant($0, files) }
    }

    /// Those of a database file of which the control block is left.
    static func all(ofMissingDatabaseAt path: String) -> [LostParticipant] {
        let path = System.resolvedPath(path)
        let records = (try? ControlBlock.open(forDatabaseAt: path, writable: false))?.participants() ?? []
        return records.compactMap { LostParticipant($0, nil) }
    }

    /// - parameter files: the files that are in their places; nil: the database file is missing.
    private init?(_ record: ParticipantRecord, _ files: FileStamps?) {
        guard record.liveness != .dead, let shown = record.files else { return nil }
        if let files, !shown.differs(from: files) { return nil }
        process = ParticipantStatus(record).party
        isDatabase = files.map { $0.database != shown.database } ?? true
        descriptors = record.isElsewhere ? nil : LostDescriptors(of: shown, pid: record.pid)
    }
}

extension DatabaseDiagnosis {
    mutating func examineLostFiles(_ facts: SystemFacts) {
        findLostFiles(facts.lost)
        find(facts.foreign)
    }

    /// What a living participant has lost is found as that.
    mutating func find(_ foreign: ForeignCompanions?) {
        guard let foreign, foreign.kind != .lostByParticipant else { return }
        find(.foreignFiles, .error, Self.sentence(foreign.explanation), advice: foreign.advice)
    }

    mutating func findLostFiles(_ participants: [LostParticipant]) {
        for participant in participants {
            let file = participant.isDatabase ? "database file" : "-wal or -shm file"
            find(
                .lostFile,
                .error,
                """
                \(participant.process) has another \(file) open than the one that is here: it was replaced, removed or moved while it was \
                open. What that process has written since is not here.
                """,
                by: [participant.process],
                advice: rescue(participant)
            )
        }
    }

    /// How to save what only that process has. Its files are gone when it ends.
    private func rescue(_ participant: LostParticipant) -> String {
        let restart = "Then close and open the database there, or restart the program."
        guard let descriptors = participant.descriptors else {
            return
                "Before that process ends, run this command as its user, or as root, on its machine: it then says how to save what it has. \(restart)"
        }
        if let path = descriptors.path, participant.isDatabase {
            return
                "Its file is \(path.shellQuotedPath) now: move it back while no program runs, or merge what it has. \(restart)"
        }
        let copy = (path as NSString).lastPathComponent + ".saved"
        var commands = ["cp \(descriptors.database) \(copy.shellQuotedPath)"]
        if let wal = descriptors.wal { commands.append("cp \(wal) \("\(copy)-wal".shellQuotedPath)") }
        return """
            Before that process ends, save what it has: \(commands.joined(separator: " && ")). Any SQLite opens the copy. \
            \(restart) To put all of the copy in the place of what is here then: roundtable replace \(path.shellQuotedPath) \
            --with \(copy.shellQuotedPath).
            """
    }
}
