import Foundation
import Roundtable
import RoundtableToolSupport

extension StatusText {
    /// The waiting commands and the participants that apply them; nil when there was never an outbox.
    var outbox: String? {
        guard let outbox = status.outbox else { return nil }
        var parts: [String] = []
        if let wait = outbox.longestWait() {
            let verb = outbox.waiting == 1 ? "waits, for" : "wait, the oldest for"
            parts.append("\(outbox.waiting.of("command")) (\(outbox.bytes.byteSize)) \(verb) \(wait.rough)")
        } else {
            parts.append("nothing waits")
        }
        if let letters = outbox.deadLetters, letters > 0 {
            let retried = outbox.deadLettersToRetry ?? 0
            parts.append("\(letters.grouped) set aside" + (retried > 0 ? ", \(retried.grouped) to be retried" : ""))
        }
        for other in outbox.otherDatabases { parts.append("shared with \(other.path)") }
        for other in outbox.otherFolders { parts.append("another one in \(other.path)") }
        if outbox.damaged > 0 { parts.append(outbox.damaged.of("damaged file")) }
        switch status.outboxService {
        case .applied(let owners): parts.append("applied by \(Self.names(owners))")
        case .heldUp(let owners): parts.append("applied by \(Self.names(owners)), suspended or stopped")
        case .unowned where outbox.waiting > 0: parts.append("no process runs that applies commands")
        case .unowned, .unknown, nil: break
        }
        if needsAttention(outbox) {
            parts.append("look at the commands: \(Terminal.commandLine(status.outboxArguments))")
        }
        return parts.joined(separator: " · ")
    }

    /// Whether commands have waited for long, no process applies them, or some were set aside.
    func needsAttention(_ outbox: OutboxStatus) -> Bool {
        if outbox.isEmpty { return false }
        let isServed =
            switch status.outboxService {
            case .applied, .unknown: true
            case .heldUp, .unowned, nil: false
            }
        // Commands that have waited for a short time need no attention.
        let isUnderWay = isServed && (outbox.longestWait() ?? .zero) < .seconds(60)
        return !isUnderWay || outbox.damaged > 0 || outbox.deadLetters ?? 0 > 0
    }

    private static func names(_ participants: [ParticipantStatus]) -> String {
        participants.map(\.name).joined(separator: ", ")
    }
}
