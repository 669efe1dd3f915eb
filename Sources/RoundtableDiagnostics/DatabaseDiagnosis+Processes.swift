import RoundtableCore

// These are the findings about processes: which of them hold the WAL back, are stopped, or take no turns.

extension DatabaseDiagnosis {
    // MARK: Who holds the WAL back

    mutating func examineReads(_ status: DatabaseStatus, _ facts: SystemFacts) {
        for participant in status.participants {
            if participant.liveness == .stopped {
                // A frozen reader is reported by `examineStopped`.
                guard let read = Self.read(of: participant, status), read.isPastLimit,
                    !isFrozenReader(participant, status, facts)
                else { continue }
                findFrozenReader(participant, read, .longRead, status)
                continue
            }
            guard let read = participant.oldestRead, read.isPastLimit else { continue }
            let held = read.heldFrames.map { ", and holds \(heldBack($0, status)) back" } ?? ""
            let began = read.callSite.map { " that began at \($0)" } ?? " that it has begun"
            find(
                .longRead,
                .warning,
                "\(participant.name) has been reading one moment for \(read.age.seconds)\(held).",
                at: status.path + "-wal",
                by: [participant.party],
                advice: "End the read\(began): shorten its closure, or advance or close the snapshot."
            )
        }
        // The reads that no participant shows, mostly of strangers. How long they have lasted may not be known.
        for pin in status.wal?.pins ?? [] where Self.isPastLimit(pin) {
            let isReported = status.participants.contains {
                pin.holder.isSame(as: $0) && ($0.liveness == .stopped || $0.oldestRead != nil)
            }
            if isReported { continue }
            find(
                .longRead,
                .warning,
                "\(pin).",
                at: status.path + "-wal",
                by: [pin.holder],
                advice: pin.holder.liveness == .stopped
                    ? "Continue it (kill -CONT \(pin.holder.pid)) or end it, which ends its transaction."
                    : "End its transaction."
            )
        }
    }

    private static func isPastLimit(_ pin: WALHealth.Pin) -> Bool {
        LongRead.Limit().isPassed(age: pin.age ?? .zero, heldFrames: pin.heldFrames)
    }

    /// The oldest read of a participant: the one that it shows, or, if that holds nothing back, the one that its locks show. A participant
    /// that was stopped while it began to read shows none.
    private static func read(of participant: ParticipantStatus, _ status: DatabaseStatus) -> ParticipantStatus.Read? {
        let shown = participant.oldestRead
        guard shown?.heldFrames ?? 0 == 0,
            let pin = status.wal?.pins.first(where: { $0.holder.isSame(as: participant) })
        else { return shown }
        return ParticipantStatus.Read(
            age: pin.age ?? .zero,
            heldFrames: pin.heldFrames,
            isPastLimit: isPastLimit(pin),
            callSite: pin.callSite
        )
    }

    private mutating func findFrozenReader(
        _ participant: ParticipantStatus,
        _ read: ParticipantStatus.Read,
        _ topic: DatabaseDiagnosis.Topic,
        _ status: DatabaseStatus
    ) {
        let site = read.callSite.map { " (since \($0))" } ?? ""
        let held = read.heldFrames.map { ", and holds \(heldBack($0, status)) back: no checkpoint can copy them" } ?? ""
        find(
            topic,
            .warning,
            "\(participant.name) is stopped in the middle of a read\(site)\(held).",
            at: status.path + "-wal",
            by: [participant.party],
            advice: "Continue it (kill -CONT \(participant.pid)) or end it, which ends its read."
        )
    }

    /// The number of frames and their size, as `7,471 WAL frames (29 MiB)`.
    private func heldBack(_ frames: Int, _ status: DatabaseStatus) -> String {
        "\(frames.of("WAL frame")) (\(size(ofFrames: frames, status)))"
    }

    // MARK: Who is stopped

    mutating func examineParticipants(_ status: DatabaseStatus, _ facts: SystemFacts) {
        for participant in status.participants {
            switch participant.liveness {
            case .dead:
                find(
                    .deadParticipant,
                    .notice,
                    "'\(participant.author)' died without closing the database.",
                    at: status.controlBlock.path,
                    by: [participant.party],
                    advice: "Nothing: the next participant that waits or joins clears its slot."
                )
            case .stopped: examineStopped(participant, status, facts)
            case .alive, .unknown: break
            }
            if participant.refusesWrites, participant.liveness != .dead {
                find(
                    .writesRefused,
                    .warning,
                    "The writes of \(participant.name) are refused: another program has applied a migration that it does not know.",
                    at: status.path,
                    by: [participant.party],
                    advice: "Update this program, and start it again."
                )
            }
        }
        if let stranger = facts.checkpointer, !stranger.isParticipant, facts.isCheckpointerStopped {
            find(
                .frozenCheckpointer,
                .error,
                """
                \(Self.name(stranger)) (pid \(stranger.pid)) is stopped, and holds SQLite's lock for checkpoints: no other process can \
                checkpoint, and the WAL grows.
                """,
                at: status.path + "-shm",
                by: [stranger],
                advice: "Continue it (kill -CONT \(stranger.pid)) or end it."
            )
        }
        if let writer = status.writeLock, facts.strangers.contains(where: { $0.pid == writer.pid }) {
            find(
                .strangerWrites,
                .warning,
                "\(Self.name(writer)) holds SQLite's write lock, and takes no turns.",
                by: [writer],
                advice:
                    "If it keeps the lock, end its transaction; let it write through Roundtable (`roundtable sql`) or keep transactions short."
            )
        }
    }

    /// The read locks that keep others out, which no program of SQLite or of Roundtable holds for longer than a moment.
    mutating func examineObstructions(_ status: DatabaseStatus) {
        for lock in status.obstructingLocks ?? [] {
            let consequence =
                switch lock.kind {
                case .write: "no process can write"
                case .checkpoint: "no process can checkpoint, and the WAL grows"
                case .recovery: "after a crash, no process can use the database"
                case .slots: "participants cannot claim them, and work without turns when none is left"
                }
            let party = lock.party.prefix(1).uppercased() + lock.party.dropFirst()
            find(
                .obstructingLock,
                lock.kind == .write || lock.kind == .recovery ? .error : .warning,
                "\(party) holds a read lock on \(lock.name): \(consequence).",
                at: lock.kind == .slots ? status.controlBlock.path : status.path + "-shm",
                by: lock.holder.map { [$0] } ?? [],
                advice: lock.holder == nil
                    ? "Run this as root, which sees all processes. Then end the process, and give its user a snapshot file instead of the database."
                    : "End the process. If its user is not trusted, give him a snapshot file instead of the database."
            )
        }
    }

    private mutating func examineStopped(
        _ participant: ParticipantStatus,
        _ status: DatabaseStatus,
        _ facts: SystemFacts
    ) {
        if isFrozenReader(participant, status, facts), let read = Self.read(of: participant, status) {
            return findFrozenReader(participant, read, .frozenParticipant, status)
        }
        let held = locks(of: participant, status, facts)
        if held.isEmpty, participant.state == .suspended { return }
        let holding = held.isEmpty ? "" : ", and holds " + held.joined(separator: ", and ")
        let site =
            participant.callSite.map { " It \(participant.writing == nil ? "last wrote" : "writes") from \($0)." } ?? ""
        find(
            .frozenParticipant,
            held.isEmpty ? .warning : .error,
            "'\(participant.author)' is stopped\(holding).\(site)",
            by: [participant.party],
            advice:
                "Continue it (kill -CONT \(participant.pid)) or end it; suspend the database before the process stops."
        )
    }

    /// Whether the participant was stopped without being suspended, holds frames back by a read, and holds no lock that is worse.
    private func isFrozenReader(
        _ participant: ParticipantStatus,
        _ status: DatabaseStatus,
        _ facts: SystemFacts
    ) -> Bool {
        guard participant.liveness == .stopped, participant.state != .suspended,
            let read = Self.read(of: participant, status)
        else { return false }
        return read.heldFrames != 0 && locks(of: participant, status, facts).isEmpty
    }

    /// The locks of the participant that keep other processes out, in words.
    private func locks(
        of participant: ParticipantStatus,
        _ status: DatabaseStatus,
        _ facts: SystemFacts
    ) -> [String] {
        var held: [String] = []
        if status.writeLock?.isSame(as: participant) == true {
            held.append("the write lock: no other process can write")
        }
        if facts.checkpointer?.isSame(as: participant) == true {
            held.append("the CKPT lock: no other process can checkpoint")
        }
        return held
    }

    private static func name(_ party: SharingProcess) -> String {
        party.name.map { "'\($0)'" } ?? "A process"
    }
}
