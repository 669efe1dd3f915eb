import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

// Rule X7: A command whose handler throws is retried after 100 ms, 200 ms and so on, at most 1 min. Meanwhile later commands of its sender
// wait. After 8 attempts, counted for all owners, or at once if it is refused, it becomes a *dead letter* in the database. Errors of the
// database (busy, full, I/O and the like) count as no attempt at first.

// Rule X8: A command of an unknown name or version waits, with its sender's later ones, for 10 s since this owner first met it; then it is
// a dead letter. One whose payload cannot be decoded is one at once. An owner that knows an unknown one later applies it then.

/// Decides about the tries of one command: when the next one is made, and when the command is set aside instead (rules X7, X8). It knows
/// neither clocks nor files nor databases.
struct OutboxRetryPolicy {
    let retries: OutboxHandlers.Retries
    /// How long a command of an unknown kind waits for an owner that knows it.
    let gracePeriod: Duration

    /// What becomes of a command that has failed.
    enum Verdict: Equatable {
        case retry(at: Date)
        case setAside(DeadLetter.Reason)
    }

    /// The time, in seconds, that the next try may be ahead of any clock: other owners may have longer pauses than this one.
    static let longestPlausiblePause: TimeInterval = 3600

    /// Whether the next try is due. A time that is too far ahead counts as due, because the clock may have been set back.
    func isDue(_ next: Date, at now: Date) -> Bool {
        now >= next || next.timeIntervalSince(now) > max(retries.maximumDelay.inSeconds, Self.longestPlausiblePause)
    }

    /// The number of the try that follows the recorded ones. The recorded number may be any, because any program can write to the table.
    static func attempt(after recorded: Int?) -> Int { min(max(recorded ?? 0, 0), .max - 1) + 1 }

    /// Until when a command of an unknown kind waits; it is set aside after that.
    ///
    /// - Parameters:
    ///   - firstMet: when this owner first met the command.
    ///   - next: when the command was to be retried, if it has failed. Another owner then knows it, and should make that try.
    func endOfGrace(firstMet: Date, next: Date?, at now: Date) -> Date {
        let start = max(firstMet, min(next ?? firstMet, now))
        return start.addingTimeInterval(max(0, gracePeriod.inSeconds))
    }

    /// - parameter attempt: the number of the try that has failed.
    func verdict(on error: any Error, attempt: Int, at now: Date) -> Verdict {
        switch error {
        case is UndecodablePayload: return .setAside(.undecodable)
        case is OutboxRefusal: return .setAside(.refused)
        case _ where attempt >= retries.maximumAttempts: return .setAside(.failed)
        default:
            // If the database may have caused the error after all, it gets the longest time to recover.
            let pause = error.isOfDatabase ? retries.maximumDelay.inSeconds : pause(after: attempt)
            return .retry(at: now.addingTimeInterval(pause))
        }
    }

    /// The pause in seconds.
    private func pause(after attempt: Int) -> TimeInterval {
        TimeInterval(Backoff(retries.firstDelay, upTo: retries.maximumDelay).pause(after: attempt)) / 1e9
    }
}
