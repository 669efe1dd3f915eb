import Foundation
import RoundtableCore
import RoundtableFiles

// These are the findings about the outbox: what waits in it, and why it is not applied.

/// The participants that apply the commands of an outbox.
package enum OutboxService: Equatable, Sendable {
    case applied(by: [ParticipantStatus])
    /// All participants that apply commands are suspended or stopped.
    case heldUp([ParticipantStatus])
    /// No participant applies commands. `running` are the participants that run and may write.
    case nobody(running: [ParticipantStatus])
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
            return writers.isEmpty ? .nobody(running: []) : .unknown(writers)
        }
        let owners = writers.filter { writer in applying.contains { $0.isSame(as: writer) } }
        if owners.isEmpty { return .nobody(running: writers.filter(isAwake)) }
        let awake = owners.filter(isAwake)
        return awake.isEmpty ? .heldUp(owners) : .applied(by: awake)
    }
}

extension Doctor {
    /// The time in seconds in which a running owner applies a command, unless something is wrong.
    private static let patience: TimeInterval = 60
    /// The time in seconds after which commands that no running owner applies are worth a warning.
    private static let longAbsence: TimeInterval = 24 * 3600

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
                next:
                    "\(look) says why. Have one tried again (retry ID) once the cause is gone, or forget it (drop ID)."
            )
        }
        examineOthers(outbox, path: status.path)
        if outbox.damaged > 0 {
            find(
                .damagedCommands,
                .warning,
                """
                \(outbox.damaged.of("file")) in the outbox \(outbox.damaged == 1 ? "was no whole command, and was" : "were no whole commands, and were") \
                moved out of the way.
                """,
                at: outbox.path + "/damaged",
                next: "\(look) says what is wrong with each. `retry` takes one that is whole back, `drop` removes it."
            )
        }
    }

    private mutating func examineOthers(_ outbox: OutboxStatus, path: String) {
        for other in outbox.otherDatabases {
            find(
                .sharedOutbox,
                .warning,
                """
                Commands in this outbox were applied to \(other.path), too, by '\(other.owner)'. They do not say which database they are for: each gets \
                what its owner comes to first.
                """,
                at: outbox.path,
                next: """
                    Give each database a folder of its own (Options.outboxFolder), and say so to the senders; or, if it is a copy that nobody opens any more, \
                    remove \(other.path).
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
                isEmpty ? .note : .warning,
                """
                Commands in \(other.path) were applied to this database, too, by '\(other.owner)', and an owner looks into one folder alone. \
                \(waiting.map { "There, \($0)." } ?? "What waits there cannot be seen.")
                """,
                at: other.path,
                next: isEmpty
                    ? "If nobody submits there any more, remove it; else have all who open the database say the same Options.outboxFolder."
                    : """
                    Have all who open the database, and all senders, say the same Options.outboxFolder. See what waits: \
                    `roundtable outbox \(path.shellQuoted) --folder \(other.path.shellQuoted)`.
                    """
            )
        }
    }

    private mutating func examineWaiting(
        _ outbox: OutboxStatus,
        _ service: OutboxService,
        _ wait: TimeInterval,
        _ look: String,
        _ isWritable: Bool
    ) {
        let verb = outbox.waiting == 1 ? "waits" : "wait"
        let oldest = "\(outbox.waiting == 1 ? "for" : "the oldest for") \(wait.rough)"
        let what = "\(outbox.waiting.of("command")) (\(outbox.bytes.byteSize)) \(verb) in the outbox, \(oldest)"
        let defaults = Outbox.Options()
        if outbox.waiting >= defaults.maximumCount / 10 * 9 || outbox.bytes >= defaults.maximumBytes / 10 * 9 {
            find(
                .fullOutbox,
                .warning,
                """
                \(what): senders are refused beyond \(defaults.maximumCount.grouped) commands or \(defaults.maximumBytes.byteSize), unless their \
                options say otherwise.
                """,
                at: outbox.path,
                next: "See that the process runs that applies them, and \(look) for what they wait for."
            )
        }
        switch service {
        case .nobody(let running):
            find(
                .commandsWait,
                wait > (running.isEmpty ? Self.longAbsence : Self.patience) ? .warning : .note,
                running.isEmpty
                    ? "\(what), and nobody runs who could apply them."
                    : "\(what), and nobody who runs applies commands.",
                at: outbox.path,
                by: running.map(\.party),
                next:
                    "Start the program that opens the database with handlers (Options.outbox); \(look) shows what waits."
            )
        case .heldUp(let owners):
            let stopped = owners.filter { $0.liveness == .stopped && $0.state != .suspended }
            find(
                .commandsWait,
                stopped.isEmpty && wait <= Self.longAbsence ? .note : .warning,
                "\(what), and who applies them is \(stopped.isEmpty ? "suspended" : "stopped").",
                at: outbox.path,
                by: owners.map(\.party),
                next: stopped.isEmpty
                    ? "Nothing: they are applied when it is resumed."
                    : "Continue it (kill -CONT \(stopped[0].pid)), or end it and start it anew."
            )
        case .applied(let owners), .unknown(let owners):
            guard wait > Self.patience else { return }
            var text = "\(what), though a participant that may write runs."
            if case .applied = service { text = "\(what), though somebody runs who applies commands." }
            find(
                .commandsWait,
                .warning,
                text,
                at: outbox.path,
                by: owners.map(\.party),
                next: isWritable
                    ? """
                    \(look) says what each waits for. A program that is older than the database applies none: restart it in its new version.
                    """
                    : """
                    Change the permissions that the other finding names. Commands may have been applied already: their files stay until an owner can \
                    remove them.
                    """
            )
        }
    }
}
