#if os(Linux)
    import Foundation
    import RoundtableTestKit

    /// What one contestant's suspensions have come to.
    struct SuspensionFindings: Encodable {
        let contestant: SuspensionContestant
        var freezes = 0
        var convicted = 0
        var convictedByRule: [String: Int] = [:]
        /// Those before which the machine took a good part of the notice away: ``SuspensionJournal/Ticks/isStalled(_:notice:)``.
        var stalled = 0
        /// The first of them, with what the program did then.
        var convictions: [String] = []
        /// Freezes that an assertion put off; that came in spite of it.
        var postponed = 0
        var expired = 0
        /// Programs that ended by themselves.
        var crashes = 0
        /// Programs that were started.
        var starts = 0

        /// Transactions. Lost: acknowledged and not there; torn: not all of their rows are there.
        var acknowledged = 0
        var lost = 0
        var torn = 0
        /// Of all databases, after the last death.
        var integrityErrors: [String] = []

        /// Of the transactions that ran when a notice came.
        var finished = 0
        var rolledBack = 0
        /// Errors of transactions that had begun, and of such that had not, by SQLite's code.
        var errorsInside: [String: Int] = [:]
        var errorsOutside: [String: Int] = [:]
        var committedThoughFailed = 0
        var firstErrors: [String: String] = [:]
        /// What our gate answered.
        var gate: [String: Int] = [:]
        var activity: [String: Int] = [:]

        /// In ms: from the notice until the program said that it is ready to be frozen.
        var answers: [Double] = []
        /// In ms: from the notice until the transaction that ran was committed.
        var finishing: [Double] = []
        var postponements: [Double] = []
        /// In seconds, while programs ran and were frozen.
        var seconds = 0.0

        init(_ contestant: SuspensionContestant) { self.contestant = contestant }

        var transactionsPerSecond: Double { seconds > 0 ? Double(acknowledged) / seconds : 0 }

        mutating func add(_ verdict: Verdict) {
            if let answered = verdict.answered { answers.append(answered / .milliseconds(1)) }
            if verdict.assertionTime > .zero { postponements.append(verdict.assertionTime / .milliseconds(1)) }
        }

        mutating func add(_ report: PoliceReport) {
            freezes += report.freezes
            convicted += report.convicted
            convictedByRule.merge(report.convictedByRule, uniquingKeysWith: +)
            postponed += report.postponed
            expired += report.expired
            seconds += report.duration / .seconds(1)
        }

        mutating func add(_ entries: [SuspensionJournal.Entry]) {
            for entry in entries {
                switch entry.kind {
                case .finished:
                    finished += 1
                    entry.milliseconds.map { finishing.append($0) }
                case .rolledBack: rolledBack += 1
                case .committedThoughFailed: committedThoughFailed += 1
                case .error:
                    let name = entry.code.map(Self.name(ofCode:)) ?? "other"
                    if entry.isInside == true {
                        errorsInside[name, default: 0] += 1
                    } else {
                        errorsOutside[name, default: 0] += 1
                    }
                    if firstErrors[name] == nil { firstErrors[name] = entry.text }
                case .gate:
                    let outcome = entry.text.map { String($0.prefix { $0 != ":" }) } ?? ""
                    let name = ["released", "rolled back", "still held", "goes on", "resumed"].first(
                        where: outcome.hasPrefix
                    )
                    gate[name ?? outcome, default: 0] += 1
                case .activity: activity[entry.text ?? "", default: 0] += entry.count ?? 1
                }
            }
        }

        private static func name(ofCode code: Int) -> String {
            switch code {
            case 0x5254 << 8 | 9: "suspended"
            case 4: "ABORT"
            case 5: "BUSY"
            case 9: "INTERRUPT"
            case 517: "BUSY_SNAPSHOT"
            case 516: "ABORT_ROLLBACK"
            default: "\(code)"
            }
        }
    }
#endif
