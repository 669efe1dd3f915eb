import Foundation
import Roundtable

extension StatusText {
    /// The state of the replication; nil when the database is not replicated.
    var replication: String? {
        guard let replication = status.replication else { return nil }
        return ReplicationText.line(replication, at: Date())
    }
}

/// The state of a replication as one line.
enum ReplicationText {
    static func line(_ status: ReplicationStatus, at now: Date) -> String {
        var parts = ["Litestream\(status.litestream.map { " (pid \($0))" } ?? "")"]
        if let url = status.url { parts[0] += " to \(url)" }
        switch status.state {
        case .starting: parts.append("is starting")
        case .replicating: parts.append("last synced \(age(status.lastSync, now)) ago")
        case .unsupervised: parts.append("run by another program, so its lag is not known")
        case .failing, .unresponsive, .ended, .abandoned:
            parts.append("! \(status.problem ?? status.state.rawValue)")
            if status.lastSync != nil { parts.append("last synced \(age(status.lastSync, now)) ago") }
            if let advice = status.advice { parts.append(advice) }
        }
        return parts.joined(separator: " · ")
    }

    private static func age(_ date: Date?, _ now: Date) -> String {
        date.map { max(0, now.timeIntervalSince($0)).rough } ?? "?"
    }
}
