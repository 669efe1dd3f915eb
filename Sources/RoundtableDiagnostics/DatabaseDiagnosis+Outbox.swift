import Foundation
import RoundtableCore
import RoundtableDelivery
import RoundtableFiles

// These are the findings about the outbox: what waits in it, and why it is not applied.

/// The participants that apply the commands of an outbox.
package enum OutboxService: Equatable, Sendable {
    case applied(by: [ParticipantStatus])
    /// All participants that apply commands are suspended or stopped.
    case heldUp([ParticipantStatus])
    /// No participant applies commands. `running` are the participants that run and may write.
    case unowned(running: [ParticipantStatus])
    /// One of these participants may apply commands; it is not known.
    case unknown([ParticipantStatus])
}

extension DatabaseStatus {
    /// The arguments with which `roundtable` shows the commands.
    package var outboxArguments: [String] {
        guard let folder = outbox?.path, folder != OutboxFolder(databasePath: path).path else {
            return ["outbox", path]
        }
        return ["outbox", path, "--folder", folder]
    }

    /// nil without an outbox.
    package var outboxService: OutboxService? {
        guard let outbox else { return nil }
        let writers = participants.filter { $0.role == .readWrite && $0.liveness != .dead }
        func isAwake(_ participant: ParticipantStatus) -> Bool {
            participant.liveness != .stopped && participant.state != .suspended
        }
        guard let applying = outbox.owners else {
            return writers.isEmpty ? .unowned(running: []) : .unknown(writers)
        }
        let owners = writers.filter { writer in applying.contains { $0.isSame(as: writer) } }
        if owners.isEmpty { return .unowned(running: writers.filter(isAwake)) }
        let awake = owners.filter(isAwake)
        return awake.isEmpty ? .heldUp(owners) : .applied(by: awake)
    }
}

extension DatabaseDiagnosis {
    /// The time in seconds in which a running owner applies a command, unless something is wrong.
    private static let patience = Duration.seconds(60)
    /// The time in seconds after which commands that no running owner applies are worth a warning.
    private static let longAbsence = Duration.seconds(24 * 3600)

    /// - parameter isWritable: whether the folders of the outbox can be written by those who apply commands.
    mutating func examineOutbox(_ status: DatabaseStatus, isWritable: Bool, now: Date = Date()) {
        guard let outbox = status.outbox, let service = status.outboxService else { return }
        let look = "`roundtable \(status.outboxArguments.map(\.shellQuoted).joined(separator: " "))`"
        if let wait = outbox.longestWait(at: now) { examineWaiting(outbox, service, wait, look, isWritable) }
        if let letters = outbox.deadLetters, letters > 0 {
            let toBeRetried = outbox.deadLettersToRetry ?? 0
            let retried =
                toBeRetried == 0
                ? ""
                : " \(toBeRetried.grouped) of them \(toBeRetried == 1 ? "waits" : "wait") to be tried again by an owner."
            find(
                .deadLetters,
                .warning,
                "\(letters.of("command")) \(letters == 1 ? "was" : "were") set aside, and not applied.\(retried)",
                advice:
                    "\(look) shows why. Retry one when the cause is corrected (retry ID), or drop it (drop ID)."
            )
        }
        examineOthers(outbox, path: status.path)
        if outbox.damaged > 0 {
            find(
                .damagedCommands,
                .warning,
                """
                \(outbox.damaged.of("file")) in the outbox \
                \(outbox.damaged == 1 ? "was not a whole command, and was" : "were not whole commands, and were") moved away.
                """,
                at: outbox.path + "/damaged",
                advice:
                    "\(look) shows what is wrong with each. `retry` puts a whole one back into the queue, `drop` removes it."
            )
        }
    }

    private mutating func examineOthers(_ outbox: OutboxStatus, path: String) {
        for other in outbox.otherDatabases {
            find(
                .sharedOutbox,
                .warning,
                """
                A record says that commands in this outbox were applied to \(other.path), too, by '\(other.owner)'. \
                \(other.record.map { "It is \($0.path), \($0.owner.asFile). " } ?? "")Commands do not name their database: each is applied by \
                the owner that reads it first.
                """,
                at: outbox.path,
                advice: """
                    Give each database a folder of its own (Options.outboxFolder), and change the senders, too; or, if that is a copy that no \
                    process opens any more, or the record is not true, remove \(other.record?.path.shellQuotedPath ?? "the record").
                    """
            )
        }
        for other in outbox.otherFolders {
            let isEmpty = other.waiting == 0
            let waiting = other.waiting.map {
                $0 == 0 ? "nothing waits" : "\($0.of("command")) \($0 == 1 ? "waits" : "wait")"
            }
            find(
                .secondOutbox,
                isEmpty ? .notice : .warning,
                """
                Commands in \(other.path) were applied to this database, too, by '\(other.owner)', and an owner reads only one folder. \
                \(waiting.map { "There, \($0)." } ?? "What waits there is not known.")
                """,
                at: other.path,
                advice: isEmpty
                    ? "If no process submits there any more, remove it; otherwise, set the same Options.outboxFolder in all programs that open the database."
                    : """
                    Set the same Options.outboxFolder in all programs that open the database, and in all senders. To see what waits: \
                    `roundtable outbox \(path.shellQuotedPath) --folder \(other.path.shellQuotedPath)`.
                    """
            )
        }
    }

    private mutating func examineWaiting(
        _ outbox: OutboxStatus,
        _ service: OutboxService,
        _ wait: Duration,
        _ look: String,
        _ isWritable: Bool
    ) {
        let verb = outbox.waiting == 1 ? "waits" : "wait"
        let oldest = "\(outbox.waiting == 1 ? "for" : "the oldest for") \(wait.rough)"
        let what = "\(outbox.waiting.of("command")) (\(outbox.bytes.byteSize)) \(verb) in the outbox, \(oldest)"
        let defaults = CommandOutbox.Options()
        if outbox.waiting >= defaults.maximumCount / 10 * 9 || outbox.bytes >= defaults.maximumBytes / 10 * 9 {
            find(
                .fullOutbox,
                .warning,
                """
                \(what): senders are refused beyond \(defaults.maximumCount.grouped) commands or \(defaults.maximumBytes.byteSize), unless their \
                options differ.
                """,
                at: outbox.path,
                advice: "Check that the process runs that applies them, and what they wait for: \(look)."
            )
        }
        switch service {
        case .unowned(let running):
            find(
                .commandsWait,
                wait > (running.isEmpty ? Self.longAbsence : Self.patience) ? .warning : .notice,
                running.isEmpty
                    ? "\(what), and no process runs that could apply them."
                    : "\(what), and no running process applies commands.",
                at: outbox.path,
                by: running.map(\.party),
                advice:
                    "Start the program that opens the database with handlers (Options.outbox); \(look) shows what waits."
            )
        case .heldUp(let owners):
            let stopped = owners.filter { $0.liveness == .stopped && $0.state != .suspended }
            find(
                .commandsWait,
                stopped.isEmpty && wait <= Self.longAbsence ? .notice : .warning,
                "\(what), and the process that applies them is \(stopped.isEmpty ? "suspended" : "stopped").",
                at: outbox.path,
                by: owners.map(\.party),
                advice: stopped.isEmpty
                    ? "Nothing: they are applied when it is resumed."
                    : "Continue it (kill -CONT \(stopped[0].pid)), or end it and start it again."
            )
        case .applied(let owners), .unknown(let owners):
            guard wait > Self.patience else { return }
            var text = "\(what), although a participant runs that may write."
            if case .applied = service { text = "\(what), although a process runs that applies commands." }
            find(
                .commandsWait,
                .warning,
                text,
                at: outbox.path,
                by: owners.map(\.party),
                advice: isWritable
                    ? """
                    \(look) shows what each waits for. A program that is older than the database applies none: restart it in its new version.
                    """
                    : """
                    Change the permissions that the other finding names. Commands may have been applied already: their files stay until an owner can \
                    remove them.
                    """
            )
        }
    }
}
