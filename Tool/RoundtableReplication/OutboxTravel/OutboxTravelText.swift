import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableToolSupport

/// The ways of an outbox whose database is on another machine.
package struct LonelyOutbox {
    package let path: String
    package let travels: [OutboxTravelStatus]

    /// - Parameters:
    ///   - path: the argument of a verb: the place of the database, or the folder of the outbox.
    ///   - folder: the folder of `--folder`.
    /// - returns: nil when there is a database, or no report.
    package init?(at path: String, folder: String?) {
        var isFolder: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: path, isDirectory: &isFolder)
        guard !exists || isFolder.boolValue,
            let outbox = try? folder.map({ try OutboxFolder(at: URL(fileURLWithPath: $0)) })
                ?? TravelOptions.folder(path)
        else { return nil }
        let travels = OutboxTravelStatus.all(inOutboxAt: outbox.path)
        guard !travels.isEmpty else { return nil }
        self.path = outbox.path
        self.travels = travels
    }

    package func lines(at now: Date) -> [StyledText] {
        [StyledText(path), ""] + travels.map { OutboxTravelText.fact($0, at: now) }
    }
}

extension LonelyOutbox: Encodable {
    enum CodingKeys: String, CodingKey {
        case path
        case travels = "outbox_travel"
    }
}

/// The state of a way between machines as one line.
package enum OutboxTravelText {
    /// The line with the name of the way before it, as in `roundtable status`.
    package static func fact(_ status: OutboxTravelStatus, at now: Date) -> StyledText {
        let style: TextStyle = status.problem == nil ? .plain : .warning
        return StyledText("  \(status.direction.rawValue.padded(to: 14)) \(line(status, at: now))", style)
    }

    package static func line(_ status: OutboxTravelStatus, at now: Date) -> String {
        var parts = ["\(status.direction == .ship ? "to" : "from") \(status.store)"]
        switch status.state {
        case .starting: parts.append("is starting")
        case .working: break
        case .failing, .stopped, .abandoned: break
        }
        if let last = status.lastRound {
            parts.append("last round \(max(0, now.timeIntervalSince(last)).rough) ago")
            let wait = status.direction == .ship ? "not decided" : "to decide"
            parts.append(status.waiting == 0 ? "nothing waits" : "\(status.waiting.of("command")) \(wait)")
        }
        if let problem = status.problem {
            parts.append("! \(problem)")
            if let advice = status.advice { parts.append(advice) }
        }
        return parts.joined(separator: " · ")
    }
}
