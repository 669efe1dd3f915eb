import Foundation
import Roundtable

/// The state of a way between machines as one line.
enum OutboxTravelText {
    static func line(_ status: OutboxTravelStatus, at now: Date) -> String {
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
