import CRoundtableShims
import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableGate
import RoundtableKernel
import Synchronization

/// Applies the waiting commands of a database's outbox, and those that come later, until it is cancelled or the database is closed.
///
/// Its thread sleeps while no command comes. It pauses while the database is suspended. It does not keep the database open.
public final class OutboxDrain: Sendable {
    private struct State {
        var isCancelled = false
        /// Held as long as a round may run, or files of commands that this database has applied may exist.
        var claim: OutboxClaim?
        var watch: FolderWatch?
        /// The identities of the watched folders.
        var watched: [FileIdentity?] = []
        /// Whether a failure to watch was reported.
        var hasReportedFailure = false
    }

    /// The rounds, used by one thread at a time.
    ///
    /// `@unchecked Sendable`: `rounds` and `hasEnded` are only used with the lock.
    private final class Guarded: @unchecked Sendable {
        private let lock = NSLock()
        private let rounds: OutboxRounds
        private let report: @Sendable (OutboxEvent) -> Void
        private var hasEnded = false

        init(_ rounds: OutboxRounds, _ report: @escaping @Sendable (OutboxEvent) -> Void) {
            self.rounds = rounds
            self.report = report
        }

        func run(_ database: SharedDatabase, keepingFiles: Bool, _ isOver: () -> Bool) throws -> OutboxReport {
            precondition(
                !Access.isWriting(database),
                "The outbox was to be drained inside a write to its database, for example by a handler. The drain would wait for itself."
            )
            let (report, events) = lock.withLock {
                let report = Result {
                    if hasEnded { return OutboxReport() }
                    return try rounds.run(database, keepingFiles: keepingFiles, isOver: isOver)
                }
                return (report, rounds.takeEvents())
            }
            for event in events { self.report(event) }
            return try report.get()
        }

        var removalIsDue: Nanoseconds? { lock.withLock { rounds.removalIsDue } }

        /// Removes the files that were kept. The next drain finds those that cannot be removed.
        func removeKeptFiles() { lock.withLock { try? rounds.removeDecided() } }

        /// Waits for a round that runs, and ends the rounds. Later rounds do nothing.
        func end() { lock.withLock { endLocked() } }

        /// - returns: false when a round runs. Nothing has ended then.
        func endIfIdle() -> Bool {
            guard lock.try() else { return false }
            defer { lock.unlock() }
            endLocked()
            return true
        }

        private func endLocked() {
            hasEnded = true
            try? rounds.removeDecided()
        }
    }

    // A class may have a constant weak reference itself only from Swift 6.3 on.
    private struct WeakDatabase: Sendable {
        weak var object: SharedDatabase?
    }

    let handlers: OutboxHandlers
    private let folder: OutboxFolder
    private let weakDatabase: WeakDatabase
    private var database: SharedDatabase? { weakDatabase.object }
    private let gate: SuspensionGate
    private let rounds: Guarded
    private let report: @Sendable (OutboxEvent) -> Void
    private let state: Mutex<State>
    /// Ends the waits that are not for changes of the folders.
    private let wake = MonotonicSemaphore()
    private let forkGeneration = rt_fork_generation()

    /// The pauses after failures.
    private static let backoff = Backoff(.milliseconds(250), upTo: .seconds(60))

    init(_ database: SharedDatabase, handlers: OutboxHandlers, _ claim: OutboxClaim?) {
        let folder = database.outboxFolder
        self.folder = folder
        self.handlers = handlers
        weakDatabase = WeakDatabase(object: database)
        gate = database.gate
        state = Mutex(State(claim: claim))
        let report: @Sendable (OutboxEvent) -> Void = {
            [reporter = database.reporter, note = handlers.environment.note] event in
            note?(event)
            reporter.report(event)
        }
        self.report = report
        rounds = Guarded(OutboxRounds(of: database, handlers: handlers), report)
    }

    /// Creates a drain without a thread, for tests.
    package convenience init(unattended database: SharedDatabase, handlers: OutboxHandlers) {
        self.init(database, handlers: handlers, nil)
    }

    // MARK: Public interface

    /// Stops applying commands. A command that is being applied is finished. If this was the last drain of its database, another database
    /// may use the folder after that.
    public func cancel() {
        // In a child of `fork`, the pipe that wakes the thread is the parent's, too.
        guard rt_fork_generation() == forkGeneration else { return }
        let watch = state.withLock { state in
            state.isCancelled = true
            return state.watch
        }
        database?.seat.show(commandsFolder: nil, of: self)
        // If a round runs, the thread gives up the claim.
        if rounds.endIfIdle() { giveUpClaim() }
        watch?.interrupt()
        wake.signal()
    }

    /// Cancels the drain because the database is closed. A round that runs applies nothing any more.
    func close() {
        cancel()
        if rt_fork_generation() == forkGeneration { giveUpClaim() }
    }

    private func giveUpClaim() {
        let claim = state.withLock { state in
            defer { state.claim = nil }
            return state.claim
        }
        withExtendedLifetime(claim) {}
    }

    /// Applies the commands that wait now, and returns when that is done. It must not be called inside an access to the database.
    ///
    /// - returns: the result of this call.
    /// - throws: `DatabaseError`, also while the database is suspended (`isSuspension`); ``OutboxError``. Errors of commands are not
    ///   thrown.
    @_disfavoredOverload
    @discardableResult
    public func drain() throws -> OutboxReport {
        try round { self.isCancelled } ?? OutboxReport()
    }

    /// Drains like the synchronous `drain()`, without blocking the thread, with the same results and errors.
    @discardableResult
    public func drain() async throws -> OutboxReport {
        try await offThread { Result { try self.drain() } }.get()
    }

    // MARK: Rounds

    private var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// - returns: nil when the drain is cancelled, or the database does not exist any more.
    private func round(keepingFiles: Bool = false, _ isOver: () -> Bool) throws -> OutboxReport? {
        guard !isCancelled, let database else { return nil }
        return try folder.translating { try rounds.run(database, keepingFiles: keepingFiles, isOver) }
    }

    /// Applies the commands that wait before the thread begins, as many as the time allows.
    func drainFirst(within time: Nanoseconds) {
        let end = MonotonicClock.now.addingSaturating(time)
        do {
            try folder.make()
            _ = try round { MonotonicClock.now >= end || self.isCancelled }
        } catch {
            // The thread tries again, and reports the error.
        }
    }

    func begin() {
        let thread = Thread { [self] in follow() }
        thread.name = "roundtable.outbox"
        thread.start()
    }

    private func follow() {
        defer {
            database?.seat.show(commandsFolder: nil, of: self)
            rounds.end()
            giveUpClaim()
        }
        var backoff = Self.backoff
        while !isCancelled {
            // The watch is made before the round, so that a command that comes during the round wakes the thread again.
            let watch = watch()
            do {
                guard let report = try round(keepingFiles: true, { self.isCancelled }) else { return }
                backoff.succeeded()
                try wait(watch, report.nextTry)
            } catch {
                // The kept files are removed now, because the next round may come much later.
                rounds.removeKeptFiles()
                if isCancelled || database == nil { return }
                // The gate may have opened again by now, so the error is checked as well.
                if gate.isClosed || (error as? DatabaseError)?.isSuspension == true {
                    waitForGate()
                } else {
                    // The first such failure may mean that the database is being closed.
                    let isClosing = (error as? DatabaseError)?.resultCode == .SQLITE_MISUSE && backoff.failures == 0
                    if !isClosing { report(.failed(error)) }
                    let pause = backoff.next()
                    sleep(backoff.shortest)
                    // A change in the folders ends the pause, because the cause may be gone by then.
                    if pause > backoff.shortest { try? wait(watch, upTo: pause - backoff.shortest) }
                }
            }
        }
    }

    // MARK: Waiting

    /// Watches the folders, and creates those that are missing.
    ///
    /// - returns: nil when they cannot be watched.
    private func watch() -> FolderWatch? {
        // The watch of the outer folder detects that all of them are moved away at the same time.
        let folders = [folder.path, folder.path(of: .commands), folder.path(of: .questions)]
        do {
            let found = try folders.map { try System.identity(ofFileAt: $0) }
            let (old, watched) = state.withLock { ($0.watch, $0.watched) }
            if let old, found == watched, !found.contains(nil) { return old }
            try folder.make()
            let identities = try folders.map { try System.identity(ofFileAt: $0) }
            database?.seat.show(commandsFolder: isCancelled ? nil : identities[1], of: self)
            let watch = try FolderWatch(folders, includingRemovals: false)
            let isCancelled = state.withLock { state in
                state.watch = watch
                state.watched = identities
                state.hasReportedFailure = false
                return state.isCancelled
            }
            if isCancelled { watch.interrupt() }
            return watch
        } catch {
            let isNews = state.withLock { state in
                defer { state.hasReportedFailure = true }
                state.watch = nil
                return !state.hasReportedFailure
            }
            if isNews { report(.failed(folder.translated(error))) }
            return nil
        }
    }

    // Rule X14: An owner watches `commands` and `questions`, or looks every 250 ms, and shows the inode of `commands` in its slot (offset
    // 360). A child of `fork` does not drain.

    /// Waits for a change, the next try, or the removal of files (rule X14).
    private func wait(_ watch: FolderWatch?, _ nextTry: Date?) throws {
        let nextTry = nextTry.map { date in
            // The wait is at least 1 ms, so that a clock that stands still causes no busy loop, and at most 60 s, because clocks are set.
            let seconds = min(max(date.timeIntervalSince(handlers.environment.now()), 0.001), 60)
            return Nanoseconds(seconds * 1e9)
        }
        let removal = rounds.removalIsDue.map { $0.subtractingSaturating(MonotonicClock.now) }
        try wait(watch, upTo: [nextTry, removal].compactMap(\.self).min())
    }

    private func wait(_ watch: FolderWatch?, upTo rest: Nanoseconds?) throws {
        if let watch {
            let outcome = try folder.translating { try watch.wait(upTo: rest) }
            // The next round begins with another watch.
            if outcome == .gone { state.withLock { $0.watch = nil } }
        } else {
            sleep(min(rest ?? .max, OutboxQuestion.interval))
        }
    }

    private func sleep(_ time: Nanoseconds) { _ = wake.wait(upTo: time) }

    private func waitForGate() {
        let id = gate.onChange { [wake] in wake.signal() }
        if gate.isClosed, !isCancelled { wake.wait() }
        gate.cancel(id)
    }
}
