import Foundation
import RoundtableKernel

// Rule W12g: Opening is refused when there is a `-wal` with content and no database; when slots, also of the dead, show the `-wal` and
// `-shm` that are there with another database file (and no slot shows all three), and `-wal` has content; and when a living participant
// shows the database with another `-wal` or `-shm`. For SQLite would remove the first, apply the second to the wrong file, and hide what is
// in the third. A file that was overwritten in its place is not noticed.

/// Files beside a database that are of another file than the one that is there (rule W12g).
///
/// SQLite does not see that. It applies a `-wal` to whatever file has the name, and removes one whose database is gone.
package struct ForeignCompanions: Sendable {
    package enum Kind: Sendable {
        /// There is a `-wal`, and no database.
        case orphaned
        /// The `-wal` is that of a file that was here before.
        case ofFormerFile
        /// A living participant has `-wal` and `-shm` open that are not here any more.
        case lostByParticipant
    }

    package let kind: Kind
    private let path: String
    /// The participant that has shown what is foreign; nil for `orphaned`.
    private let participant: ParticipantRecord?

    /// - returns: nil when the files may be opened.
    package static func find(databasePath path: String) -> ForeignCompanions? {
        // `-wal` comes first, because the database file is written before there is anything in it.
        let hasContent = hasContent(path + "-wal")
        if hasContent, !Self.hasContent(path) {
            return ForeignCompanions(kind: .orphaned, path: path, participant: nil)
        }
        guard let block = try? ControlBlock.open(forDatabaseAt: path, writable: false) else { return nil }
        let shown = block.shownFiles
        if shown.isEmpty || shown.contains(FileStamps(ofDatabaseAt: path)) { return nil }
        // A participant may show its files, or close them, between two looks.
        guard find(databasePath: path, block.participants(), hasContent: hasContent) != nil else { return nil }
        return find(databasePath: path, block.participants(), hasContent: hasContent)
    }

    /// - parameter participants: read before the files are looked at.
    private static func find(
        databasePath path: String,
        _ participants: [ParticipantRecord],
        hasContent: Bool
    ) -> ForeignCompanions? {
        let shown = participants.filter { $0.files?.areComplete == true }
        let present = FileStamps(ofDatabaseAt: path)
        if shown.contains(where: { $0.files == present }) { return nil }
        if hasContent, let former = shown.first(where: { $0.files?.companions == present.companions }) {
            return ForeignCompanions(kind: .ofFormerFile, path: path, participant: former)
        }
        let loser = shown.first {
            $0.files?.database == present.database && [.alive, .stopped].contains($0.liveness)
        }
        return loser.map { ForeignCompanions(kind: .lostByParticipant, path: path, participant: $0) }
    }

    private static func hasContent(_ path: String) -> Bool {
        (try? System.status(ofFileAt: path)).flatMap { $0 }.map { $0.st_size > 0 } ?? false
    }

    /// - parameter isBeforeTurn: whether the opener will complete a move with the turn, so that what is left of one is no reason (rule S17).
    /// - throws: ``SharedDatabaseError/foreignFiles(path:reason:)``.
    static func refuse(databasePath path: String, isBeforeTurn: Bool = true) throws {
        // A participant that has just closed its files, or lost them, shows them for a moment longer.
        var backoff = Backoff(.milliseconds(1), upTo: .milliseconds(50))
        while let found = find(databasePath: path) {
            if isBeforeTurn, found.kind == .orphaned, (try? MovedDatabase(path).isBeingMoved) == true { return }
            guard found.isHeld, backoff.failures < 7 else {
                throw SharedDatabaseError.foreignFiles(path: path, reason: "\(found.explanation). \(found.advice)")
            }
            MonotonicClock.sleep(backoff.next())
        }
    }

    // MARK: Texts

    /// What is there, without the path and the last full stop.
    package var explanation: String {
        switch kind {
        case .orphaned:
            "the database is gone, and its -wal is still here, perhaps with commits that are nowhere else. SQLite would remove it"
        case .ofFormerFile:
            "the -wal here belongs to another database file, which was here before\(holder). SQLite would apply it to this file, and damage it"
        case .lostByParticipant:
            "the -wal or -shm of \(name) was removed or replaced. What it has committed since the last checkpoint is in no other file"
        }
    }

    package var advice: String {
        let away = "move \("\(path)-wal".shellQuotedPath) and \("\(path)-shm".shellQuotedPath) away"
        let doctor = "Run roundtable doctor \(path.shellQuotedPath) first, which says how to save"
        return switch kind {
        case .orphaned: "If you have moved the database, move its -wal with it. Else \(away), and open it again."
        case .ofFormerFile where isHeld:
            "\(doctor) what that process has. Then end it, \(away), and open it again."
        case .ofFormerFile:
            "If the former file still exists, put it back to keep what it has. Else \(away), and open it again."
        case .lostByParticipant:
            "\(doctor) it. Then end that process, and open it again."
        }
    }

    private var isHeld: Bool { participant.map { [.alive, .stopped].contains($0.liveness) } ?? false }
    private var name: String { participant?.name ?? "another process" }
    private var holder: String { isHeld ? ", and which \(name) still has open" : "" }
}
