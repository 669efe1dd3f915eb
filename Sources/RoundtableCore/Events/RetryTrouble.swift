import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// Reports that an error which is retried lasts, and when that is over.
///
/// `Step` is what can fail. One event is reported for all steps together.
package final class RetryTrouble<Step: Hashable & Sendable>: Sendable {
    private let reporter: EventReporter
    private let interrupted: @Sendable (any Error) -> any ReportedEvent
    private let resumed: @Sendable (Duration) -> any ReportedEvent
    private let state = Mutex(RetryTroubleState<Step>())
    /// Whether a step fails. It is read at each success, without the lock.
    private let isFailing = Atomic(false)

    /// - Parameters:
    ///   - interrupted: the event of an error that lasts.
    ///   - resumed: the event of its end.
    package init(
        _ reporter: EventReporter,
        interrupted: @escaping @Sendable (any Error) -> any ReportedEvent,
        resumed: @escaping @Sendable (Duration) -> any ReportedEvent
    ) {
        (self.reporter, self.interrupted, self.resumed) = (reporter, interrupted, resumed)
    }

    /// An error that the suspension gate causes is none: the step follows when the database is resumed.
    package func failed(_ step: Step, _ error: any Error) {
        if case Refusal.turnedBack = error { return }
        if (error as? DatabaseError)?.isSuspension == true { return }
        isFailing.store(true, ordering: .sequentiallyConsistent)
        if state.withLock({ $0.failed(step, at: MonotonicClock.now) }) { reporter.report(interrupted(error)) }
    }

    package func succeeded(_ step: Step) {
        guard isFailing.load(ordering: .sequentiallyConsistent) else { return }
        let time = state.withLock { state in
            let time = state.succeeded(step, at: MonotonicClock.now)
            isFailing.store(state.isFailing, ordering: .sequentiallyConsistent)
            return time
        }
        if let time { reporter.report(resumed(.nanoseconds(Int64(clamping: time)))) }
    }
}

/// Which steps fail, since when, and whether that was reported. A pure value.
struct RetryTroubleState<Step: Hashable & Sendable> {
    /// How long an error lasts before it is reported. It is the first pause of ``Backoff/reopening``, so an error whose first retry succeeds is not
    /// reported.
    var patience: Nanoseconds { 1_000_000_000 }

    private var failing: [Step: Nanoseconds] = [:]
    /// When the reported error began.
    private var reported: Nanoseconds?

    var isFailing: Bool { !failing.isEmpty }

    /// - returns: whether the error is to be reported.
    mutating func failed(_ step: Step, at now: Nanoseconds) -> Bool {
        let since = failing[step] ?? now
        failing[step] = since
        guard reported == nil, now.subtractingSaturating(since) >= patience else { return false }
        reported = since
        return true
    }

    /// - returns: how long the error has lasted, if its end is to be reported.
    mutating func succeeded(_ step: Step, at now: Nanoseconds) -> Nanoseconds? {
        failing[step] = nil
        guard failing.isEmpty, let began = reported else { return nil }
        reported = nil
        return now.subtractingSaturating(began)
    }
}
