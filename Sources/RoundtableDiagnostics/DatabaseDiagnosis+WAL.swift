import Foundation
import GRDB
import RoundtableCore
import RoundtableKernel

// These are the findings about the WAL: how long it is, and whether checkpoints are made.

extension DatabaseDiagnosis {
    private static func next(afterCheckpointError code: Int32) -> String {
        switch ResultCode(rawValue: code & 0xFF) {
        case .SQLITE_FULL: "Free space on the disk of the database file: checkpoints then continue automatically."
        case .SQLITE_IOERR:
            "\(SystemErrorAdvice.next(EIO)). Or a limit on the size of files is reached (ulimit -f, a quota)."
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_CANTOPEN: SystemErrorAdvice.next(EACCES) + "."
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            "Check the content (roundtable doctor --check), and keep a backup ready."
        default:
            "See what the program logs at this time; https://www.sqlite.org/rescode.html says what the number means."
        }
    }

    /// Whether a checkpoint should have been made.
    static func isDue(_ status: DatabaseStatus) -> Bool {
        guard let wal = status.wal else { return false }
        return wal.committedFrames - wal.backfilledFrames >= CheckpointLimits.default.threshold
            && !isHeldBack(status)
    }

    private static func isHeldBack(_ status: DatabaseStatus) -> Bool {
        status.wal?.pins.isEmpty == false || status.participants.contains { ($0.oldestRead?.heldFrames ?? 0) > 0 }
    }

    /// The advice for a long WAL of a database that no process has open.
    private static func emptyingWAL(of status: DatabaseStatus) -> String {
        let copy = "Do not copy the database file alone."
        if status.isEncrypted { return "Open it once with SharedDatabase, and close it. \(copy)" }
        let command = ["roundtable", "sql", status.path, "PRAGMA wal_checkpoint(TRUNCATE)"].map(\.shellQuoted)
        return "\(copy) To put all into it, and empty the WAL: \(command.joined(separator: " "))"
    }

    mutating func examineWAL(_ status: DatabaseStatus, _ facts: SystemFacts) {
        let location = status.path + "-wal"
        let fileSize = status.files.wal ?? 0
        let limits = CheckpointLimits.default
        let longest = limits.longest * ((status.pageSize ?? 4096) + 24)
        guard let wal = status.wal else {
            guard fileSize > longest else { return }
            let isCrash = status.files.walIndex == nil
            find(
                isCrash ? .missingWALIndex : .longWAL,
                .warning,
                isCrash
                    ? "The WAL has \(fileSize.byteSize), and there is no -shm file: the next process that opens the database reads all of it first."
                    : "The -wal file has \(fileSize.byteSize), and no process has the database open: what it holds may not be in the database file.",
                at: location,
                advice: Self.emptyingWAL(of: status)
            )
            return
        }
        let uncopied = wal.committedFrames - wal.backfilledFrames
        if wal.committedFrames > limits.longest, uncopied > 0 {
            find(
                .longWAL,
                .warning,
                "The WAL has \(frames(wal.committedFrames, status)), \(uncopied.grouped) of which are not in the database file; normally it stays below \(limits.longest.grouped).",
                at: location,
                advice: "Correct what the other findings name. If there is none, wait: the next checkpoint shortens it."
            )
        } else if fileSize > longest {
            find(
                .longWAL,
                .notice,
                "The -wal file has \(fileSize.byteSize), for \(wal.committedFrames.of("frame")).",
                at: location,
                advice: "Nothing: the next checkpoint that can shorten it does."
            )
        }
        if let failure = wal.failure {
            return find(
                .checkpointFails,
                .warning,
                "Checkpoints fail: \(failure.reason) (SQLite error \(failure.code)), \(failure.age.seconds) ago. Until one succeeds, the WAL grows.",
                at: status.path,
                by: failure.by.map { [.init(pid: $0.pid, name: $0.name, isParticipant: $0.isParticipant)] } ?? [],
                advice: Self.next(afterCheckpointError: failure.code)
            )
        }
        guard Self.isDue(status), facts.checkpointer == nil else { return }
        find(
            .notCheckpointed,
            .warning,
            facts.canCheckpoint
                ? "\(uncopied.of("frame")) (\(size(ofFrames: uncopied, status))) of the WAL are not in the database file, although no read or lock seems to prevent it."
                : "\(uncopied.of("frame")) (\(size(ofFrames: uncopied, status))) of the WAL are not in the database file, and no participant runs that checkpoints.",
            at: location,
            advice: facts.canCheckpoint
                ? "If the policy is manual, call checkpoint(); if it is external, check whether the other program runs. Otherwise, report it."
                : "Open it with SharedDatabase, policy automatic; if another program is meant to checkpoint, find out why it does not."
        )
    }

    /// The number of frames and their size, as `17,666 frames (pages), 69 MiB`.
    func frames(_ number: Int, _ status: DatabaseStatus) -> String {
        "\(number.of("frame")) (page\(number == 1 ? "" : "s")), \(size(ofFrames: number, status))"
    }

    /// The size of the pages in the frames, which a checkpoint copies.
    func size(ofFrames number: Int, _ status: DatabaseStatus) -> String {
        (number * (status.pageSize ?? 4096)).byteSize
    }
}
