import Foundation
import Roundtable
import RoundtableKernel

/// The state of a read replica as one line.
package enum ReplicaText {
    package static func line(_ status: ReplicaStatus, at now: Date) -> String {
        var parts = ["read replica\(status.url.map { " of \($0.claim)" } ?? "")"]
        if let transaction = status.transaction {
            var text = "transaction \(transaction.claim)"
            if let time = status.time { text += " of \(time.formatted(.iso8601))" }
            if let arrived = status.arrived { text += ", here since \(max(0, now.timeIntervalSince(arrived)).rough)" }
            parts.append(text)
        }
        if let lag = status.lag, let checked = status.checked {
            let age = max(0, now.timeIntervalSince(checked)).rough
            parts.append(lag == .zero ? "the newest \(age) ago" : "\(lag.rough) behind, \(age) ago")
        }
        switch status.state {
        case .starting: parts.append("is starting")
        case .following: break
        case .failing, .ended, .unresponsive, .abandoned:
            parts.append("! \(status.problem ?? status.state.rawValue)")
            if let advice = status.advice { parts.append(advice) }
        }
        return parts.joined(separator: " · ")
    }
}

/// The state of a replication as one line.
package enum ReplicationText {
    package static func line(_ status: ReplicationStatus, at now: Date) -> String {
        var parts = ["Litestream\(status.litestream.map { " (pid \($0))" } ?? "")"]
        if let url = status.url { parts[0] += " to \(url.claim)\(status.term.map { " in term \($0)" } ?? "")" }
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
