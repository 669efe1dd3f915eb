import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// Reports that errors keep observers from being notified, if they last, and when that is over.
final class ObservationTrouble: Sendable {
    /// What can fail, and is tried again.
    enum Step: Hashable {
        /// Opening the observation connection, and restarting the observations on it.
        case opening
        /// Following the commits for the observers of the writer connection.
        case following
        /// Notifying the observers of the observation connection, or of the writer connection.
        case notifying(onWriter: Bool)
    }

    private let reporter: EventReporter
    private let state = Mutex(ObservationTroubleState())
    /// Whether a step fails. It is read at each notification, without the lock.
    private let isFailing = Atomic(false)

    init(_ reporter: EventReporter) { self.reporter = reporter }

    /// An error that the suspension gate causes is none: the step follows when the database is resumed.
    func failed(_ step: Step, _ error: any Error) {
        if error is NotBegun || (error as? DatabaseError)?.isSuspension == true { return }
        isFailing.store(true, ordering: .sequentiallyConsistent)
        if state.withLock({ $0.failed(step, at: MonotonicClock.now) }) {
            reporter.report(ObservationEvent.interrupted(error))
        }
    }

    func succeeded(_ step: Step) {
        guard isFailing.load(ordering: .sequentiallyConsistent) else { return }
        let time = state.withLock { state in
            let time = state.succeeded(step, at: MonotonicClock.now)
            isFailing.store(state.isFailing, ordering: .sequentiallyConsistent)
            return time
        }
        if let time { reporter.report(ObservationEvent.resumed(after: .nanoseconds(Int64(clamping: time)))) }
    }
}

/// Which steps fail, since when, and whether that was reported. A pure value.
struct ObservationTroubleState {
    /// How long an error lasts before it is reported. It is the first pause of ``RetryPause``, so an error whose first retry succeeds is not
    /// reported.
    static let patience: Nanoseconds = 1_000_000_000

    private var failing: [ObservationTrouble.Step: Nanoseconds] = [:]
    /// When the reported error began.
    private var reported: Nanoseconds?

    var isFailing: Bool { !failing.isEmpty }

    /// - returns: whether the error is to be reported.
    mutating func failed(_ step: ObservationTrouble.Step, at now: Nanoseconds) -> Bool {
        let since = failing[step] ?? now
        failing[step] = since
        guard reported == nil, now.subtractingSaturating(since) >= Self.patience else { return false }
        reported = since
        return true
    }

    /// - returns: how long the error has lasted, if its end is to be reported.
    mutating func succeeded(_ step: ObservationTrouble.Step, at now: Nanoseconds) -> Nanoseconds? {
        failing[step] = nil
        guard failing.isEmpty, let began = reported else { return nil }
        reported = nil
        return now.subtractingSaturating(began)
    }
}
