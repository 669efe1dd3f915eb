import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableKernel
import RoundtableProcesses

/// Decides what state a replication is in, from what Litestream writes, answers and does. A pure state machine.
struct ReplicationMonitor {
    enum Event {
        case started(pid: Int32)
        case log(LitestreamLine)
        /// Litestream has answered, with the time of its last successful sync.
        case answered(lastSync: Date?)
        case didNotAnswer(isStopped: Bool)
        case ended(ProgramExit)
        case notStarted(LitestreamProblem)
        case isInTerm(UInt64)
        /// Whether this database may be replicated is not known, so Litestream was not started; or it must not, and cannot be marked.
        case cannotLook(LitestreamProblem)
    }

    private(set) var status: ReplicationStatus
    /// How often Litestream should sync, in seconds.
    private let interval: Double
    private let replica: ReplicaURL
    private var lastError: (problem: LitestreamProblem, at: Date)?
    private var silences = 0
    private var failedStarts = 0
    private var startedAt = Date.distantPast

    init(url: ReplicaURL, version: String, supervisor: Int32, interval: Double, at now: Date) {
        var status = ReplicationStatus(state: .starting, since: now, url: url.shown)
        status.supervisor = supervisor
        status.version = version
        self.status = status
        self.interval = interval
        replica = url
    }

    /// After so many unanswered questions, Litestream counts as unresponsive.
    static let patience = 2
    private static let backoff = Backoff(.seconds(1), upTo: .seconds(60))

    /// How long to wait before Litestream is started again, in seconds.
    var pause: Double { Double(Self.backoff.pause(after: failedStarts)) / 1e9 }

    /// Whether commits may be missing in the replica after Litestream was asked to end at `time`: it was failing then, or has failed since.
    func mayMissCommits(sinceEnding time: Date) -> Bool {
        status.state == .failing || lastError.map { $0.at >= time } ?? false
    }

    mutating func handle(_ event: Event, at now: Date) {
        endFuture(at: now)
        switch event {
        case .started(let pid):
            status.litestream = pid
            silences = 0
            lastError = nil
            startedAt = now
            enter(.starting, at: now)
        case .log(let line):
            if line.isError { lastError = (LitestreamProblem(message: line.text, of: replica), now) }
        case .answered(let lastSync):
            silences = 0
            // A sync that seems to be in the future was made before the clock was set back.
            if let lastSync, lastSync <= now, lastSync > status.lastSync ?? .distantPast { status.lastSync = lastSync }
            judge(at: now)
        case .didNotAnswer(let isStopped):
            silences += 1
            guard silences >= Self.patience else { return }
            let problem =
                isStopped
                ? LitestreamProblem(.stopped)
                : LitestreamProblem(.silent, lastError.map { "its last error: \($0.problem.what)" })
            enter(.unresponsive, problem, at: now)
        case .ended(let exit):
            // A program that has worked for a while begins with short pauses again.
            failedStarts = now.timeIntervalSince(startedAt) > Double(Self.backoff.longest) / 1e9 ? 1 : failedStarts + 1
            let problem = LitestreamProblem(ended: exit, after: lastError?.problem)
            status.litestream = nil
            enter(.ended, problem, at: now)
        case .notStarted(let problem):
            failedStarts += 1
            status.litestream = nil
            enter(.ended, problem, at: now)
        case .isInTerm(let term): status.term = term == 0 ? nil : term
        case .cannotLook(let problem): enter(.failing, problem, at: now)
        }
    }

    /// The system's clock may have been set back. What has happened is then not later than now, or else an error would seem to be older
    /// than the last sync until the clock has caught up.
    private mutating func endFuture(at now: Date) {
        if let error = lastError, error.at > now {
            let isLater = error.at >= status.lastSync ?? .distantPast
            lastError?.at = isLater ? now : .distantPast
        }
        status.lastSync = status.lastSync.map { min($0, now) }
        startedAt = min(startedAt, now)
    }

    /// An error counts until a later sync succeeds.
    private mutating func judge(at now: Date) {
        let lastSync = status.lastSync ?? .distantPast
        // Before the first sync since the start, errors alone tell anything.
        let reference = max(lastSync, startedAt)
        if let lastError, lastError.at >= reference {
            enter(.failing, lastError.problem, at: now)
        } else if lastSync < startedAt {
            overdue(since: startedAt, at: now) ?? enter(.starting, at: now)
        } else {
            overdue(since: lastSync, at: now) ?? enter(.replicating, at: now)
        }
    }

    /// - returns: nil when the last sync is recent enough.
    private mutating func overdue(since: Date, at now: Date) -> Void? {
        let age = now.timeIntervalSince(since)
        guard age > max(30, 5 * interval) else { return nil }
        enter(.failing, LitestreamProblem(.idle), at: now)
        return ()
    }

    private mutating func enter(_ state: ReplicationStatus.State, _ problem: LitestreamProblem? = nil, at now: Date) {
        if status.state != state { status.since = now }
        status.state = state
        status.set(problem?.cause, detail: problem?.detail)
    }
}
