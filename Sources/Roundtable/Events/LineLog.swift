import Dispatch
import Foundation
import RoundtableCore
import Synchronization

/// A log of lines for systems without a structured one: one line for each event that is a warning or an error, with a limited rate
/// (``LogRateLimit``).
final class LineLog: Sendable {
    private let limit: Mutex<LogRateLimit>
    private let now: @Sendable () -> ContinuousClock.Instant
    private let later: @Sendable (Duration, @escaping @Sendable () -> Void) -> Void
    private let write: @Sendable (String) -> Void

    /// - Parameters:
    ///   - now: the present time.
    ///   - later: runs a closure after a time, on any thread.
    ///   - write: writes a line, which has no newline. It may block.
    init(
        _ limit: LogRateLimit = LogRateLimit(),
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        later: @escaping @Sendable (Duration, @escaping @Sendable () -> Void) -> Void,
        write: @escaping @Sendable (String) -> Void
    ) {
        self.limit = Mutex(limit)
        self.now = now
        self.later = later
        self.write = write
    }

    /// The longest line, in characters. The names of other programs' migrations may be many.
    private static let longest = 2000

    func note(_ event: SharedDatabase.Event) {
        guard event.severity >= .warning else { return }
        // Errors have lines of their own, so that many warnings do not hide one.
        let key = "\(event.category) \(event.severity) \(event.path)"
        switch limit.withLock({ $0.admit(key, at: now()) }) {
        case .write(let omitted):
            let more = omitted == 0 ? "" : " (\(Self.omission(omitted)))"
            write(Self.line(event.severity, event.category, event.date, event.description) + more)
        case .leaveOut(let time?):
            let (path, category, severity) = (LoggedText.of(path: event.path), event.category, event.severity)
            later(time) { [self] in summarize(key, path, category, severity) }
        case .leaveOut(nil): break
        }
    }

    private func summarize(_ key: String, _ path: String, _ category: String, _ severity: SharedDatabase.Severity) {
        guard let omitted = limit.withLock({ $0.summary(key, at: now()) }) else { return }
        write(Self.line(severity, category, Date(), "\(path): \(Self.omission(omitted))"))
    }

    private static func omission(_ count: Int) -> String { "\(count.of("line")) like this left out" }

    private static func line(
        _ severity: SharedDatabase.Severity,
        _ category: String,
        _ date: Date,
        _ text: String
    ) -> String {
        let short = text.count > longest ? "\(text.prefix(longest)) …" : text
        return "\(date.formatted(.iso8601)) roundtable \(severity.rawValue) \(category): \(short)"
    }
}
