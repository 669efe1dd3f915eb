import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableKernel

/// Decides what state a way is in, and when the next round begins. A pure state machine (rule Z13).
struct TravelMonitor {
    private(set) var status: OutboxTravelStatus
    private let interval: Double
    private var failures = 0
    private var isBusy = false

    init(_ status: OutboxTravelStatus, interval: Double) {
        self.status = status
        self.interval = interval
    }

    /// How long to wait before the next round, in seconds.
    var pause: Double {
        if failures > 0 {
            let backoff = Backoff(Duration(inSeconds: interval * 2), upTo: .seconds(60))
            return max(interval, Double(backoff.pause(after: failures)) / 1e9)
        }
        return isBusy ? 0 : interval
    }

    mutating func ended(_ round: TravelRound, at now: Date) {
        failures = 0
        isBusy = round.isBusy
        status.waiting = round.waiting
        status.moved += round.moved
        status.decided += round.decided
        status.lastRound = now
        enter(.working, round.problem, at: now)
    }

    mutating func failed(_ problem: TravelProblem, at now: Date) {
        failures += 1
        enter(.failing, problem, at: now)
    }

    private mutating func enter(_ state: OutboxTravelStatus.State, _ problem: TravelProblem?, at now: Date) {
        if status.state != state { status.since = now }
        status.state = state
        status.set(problem?.cause, detail: problem?.detail)
    }
}
