import Foundation
import RoundtableCore

extension DatabaseDiagnosis {
    /// Reports ways between machines that do not work.
    mutating func examineTravel(_ travels: [OutboxTravelStatus]) {
        for travel in travels where travel.isImpaired {
            let name = "roundtable outbox \(travel.direction.rawValue)"
            find(
                .outboxTravel,
                .warning,
                travel.finding,
                by: travel.isReporter == true
                    ? [SharingProcess(pid: travel.pid, name: name, isParticipant: false)] : [],
                advice: Self.sentence(travel.advice ?? "Look at the output of '\(name)'")
            )
        }
    }

    /// What is wrong with the ways of an outbox without a database.
    ///
    /// - parameter path: the folder of the outbox.
    package init(ofOutboxAt path: String, _ travels: [OutboxTravelStatus]) {
        self.init(path: path, findings: [], unknowns: [])
        examineTravel(travels)
    }
}

extension OutboxTravelStatus {
    /// What is wrong, as one sentence.
    package var finding: String {
        let way =
            switch direction {
            case .ship: "Commands are not shipped to \(store)"
            case .collect: "Commands are not collected from \(store)"
            }
        let last = lastRound.map { " The last round that worked ended at \($0.formatted(.iso8601))." } ?? ""
        let text = state == .working ? "Not all commands travel" : way
        let what = problem ?? state.rawValue
        return "\(text): \(what).\(last)\(reporter.source("\(direction.rawValue).status"))"
    }
}
