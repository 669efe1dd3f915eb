import CRoundtableShims
import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// Applies what waits in the outbox of a database, and what comes, until it is cancelled or the database is closed.
///
/// While nothing comes it costs nothing: a thread sleeps. While the database is suspended it pauses. It does not keep the database open.
public final class OutboxDrain: Sendable {
    private struct State {
        var isCancelled = false
        /// For as long as there may be a round, or files of what this database has applied.
        var claim: OutboxClaim?
        var watch: FolderWatch?
        /// The folders that are watched.
        var watched: [FileIdentity?] = []
        /// A failure to watch was told.
        var hasToldOfWatch = false
    }

    private struct WeakDatabase: Sendable {
        weak let database: SharedDatabase?
    }

    /// Rounds, for one thread at a time.
    ///
    /// `@unchecked Sendable`: `rounds` and `hasEnded` are only used with the lock.
    private final class Guarded: @unchecked Sendable {
        private let lock = NSLock()
        private let rounds: OutboxRounds
        private var hasEnded = false
        init(_ rounds: OutboxRounds) { self.rounds = rounds }

        func run(_ database: SharedDatabase, keepingFiles: Bool, _ isOver: () -> Bool) throws -> OutboxReport {
            precondition(
                !Access.isWriting(database),
                "A drain of the outbox was asked for inside of a write to the database, as a handler is: it would wait for itself."
            )
            let (report, events) = lock.withLock {
                let report = Result {
                    if hasEnded { return OutboxReport() }
                    return try rounds.run(database, keepingFiles: keepingFiles, isOver: isOver)
                }
                return (report, rounds.takeEvents())
            }
            // Without the lock: who is told may drain.
            for event in events { rounds.handlers.onEvent?(event) }
            return try report.get()
        }

        var removalIsDue: Nanoseconds? { lock.withLock { rounds.removalIsDue } }

        /// Of files that were kept. What cannot be removed is met again, by whoever drains next.
        func removeKeptFiles() { lock.withLock { try? rounds.removeDecided() } }

        /// No round does anything any more. Waits for one that runs.
        func end() { lock.withLock { endLocked() } }

        /// - returns: false when a round runs: nothing has ended.
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

    let handlers: OutboxHandlers
    private let folder: OutboxFolder
    private let database: WeakDatabase
    private let gate: SuspensionGate
    private let rounds: Guarded
    private let state: Mutex<State>
    /// Ends waits that are not for the folders.
    private let wake = DispatchSemaphore(value: 0)
    private let forkGeneration = rt_fork_generation()

    /// Pauses after failures, each twice the last.
    private static let firstPause: Nanoseconds = 250_000_000
    private static let longestPause: Nanoseconds = 60_000_000_000

    init(_ database: SharedDatabase, handlers: OutboxHandlers, _ claim: OutboxClaim?) {
        let folder = database.outboxFolder
        self.folder = folder
        self.handlers = handlers
        self.database = WeakDatabase(database: database)
        gate = database.gate
        state = Mutex(State(claim: claim))
        rounds = Guarded(OutboxRounds(of: database, handlers: handlers))
    }

    /// Without a thread, for tests.
    package convenience init(unattended database: SharedDatabase, handlers: OutboxHandlers) {
        self.init(database, handlers: handlers, nil)
    }

    // MARK: For the user

    /// Applies nothing more. A command that is being applied is finished. Then, if this was the last drain of its database, another database may
    /// have the folder.
    public func cancel() {
        // The pipe that wakes the thread is the parent's, too.
        guard rt_fork_generation() == forkGeneration else { return }
        let watch = state.withLock { state in
            state.isCancelled = true
            return state.watch
        }
        database.database?.seat.show(commandsFolder: nil, of: self)
        // Else the thread does it.
        if rounds.endIfIdle() { giveUpClaim() }
        watch?.interrupt()
        wake.signal()
    }

    /// The database is closed: a round that runs applies nothing any more.
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

    /// Applies what waits now, and returns when that is done. Not to be called inside of an access to the database.
    ///
    /// - returns: what was done by this call.
    /// - throws: `DatabaseError`, also while the database is suspended (`isSuspension`); ``OutboxError``. Errors of commands are none of this.
    @_disfavoredOverload
    @discardableResult
    public func drainNow() throws -> OutboxReport {
        try round { self.isCancelled } ?? OutboxReport()
    }

    /// The same, without blocking the thread.
    @discardableResult
    public func drainNow() async throws -> OutboxReport {
        try await offThread { Result { try self.drainNow() } }.get()
    }

    // MARK: Rounds

    private var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// - returns: nil when there is nothing to be drained any more.
    private func round(keepingFiles: Bool = false, _ isOver: () -> Bool) throws -> OutboxReport? {
        guard !isCancelled, let database = database.database else { return nil }
        do {
            return try rounds.run(database, keepingFiles: keepingFiles, isOver)
        } catch let error as SystemError {
            throw OutboxError(error, folder: folder.path)
        }
    }

    /// Before the thread begins: what waited is applied when this returns, as far as it can be in that time.
    func drainFirst(within time: Nanoseconds) {
        let end = MonotonicClock.now.addingSaturating(time)
        do {
            try folder.make(folder.access())
            _ = try round { MonotonicClock.now >= end || self.isCancelled }
        } catch {
            // The thread tries again, and tells.
        }
    }

    func begin() {
        let thread = Thread { [self] in follow() }
        thread.name = "roundtable.outbox"
        thread.start()
    }

    private func follow() {
        defer {
            database.database?.seat.show(commandsFolder: nil, of: self)
            rounds.end()
            giveUpClaim()
        }
        var pause = Self.firstPause
        while !isCancelled {
            // Before looking: what comes while it looks wakes it again.
            let watch = watch()
            do {
                guard let report = try round(keepingFiles: true, { self.isCancelled }) else { return }
                pause = Self.firstPause
                try wait(watch, report.nextTry)
            } catch {
                // It may take long until there is a next round.
                rounds.removeKeptFiles()
                if isCancelled || database.database == nil { return }
                // By now, it may be open again.
                if gate.isClosed || (error as? DatabaseError)?.isSuspension == true {
                    waitForGate()
                } else {
                    // At first, it may be that the database is just being closed.
                    let isClosing = (error as? DatabaseError)?.resultCode == .SQLITE_MISUSE && pause == Self.firstPause
                    if !isClosing { handlers.onEvent?(.failed(error)) }
                    sleep(Self.firstPause)
                    // Perhaps all is well when something comes.
                    if pause > Self.firstPause { try? wait(watch, upTo: pause - Self.firstPause) }
                    pause = min(pause * 2, Self.longestPause)
                }
            }
        }
    }

    // MARK: Waiting

    /// Watches the folders; makes those that are missing.
    ///
    /// - returns: nil when they cannot be watched.
    private func watch() -> FolderWatch? {
        // The outer one tells when all of them are moved away at once.
        let folders = [folder.path, folder.path(of: .commands), folder.path(of: .questions)]
        do {
            let found = try folders.map { try System.identity(ofFileAt: $0) }
            let (old, watched) = state.withLock { ($0.watch, $0.watched) }
            if let old, found == watched, !found.contains(nil) { return old }
            try folder.make(folder.access())
            let identities = try folders.map { try System.identity(ofFileAt: $0) }
            database.database?.seat.show(commandsFolder: isCancelled ? nil : identities[1], of: self)
            let watch = try FolderWatch(folders, includingRemovals: false)
            let isCancelled = state.withLock { state in
                state.watch = watch
                state.watched = identities
                state.hasToldOfWatch = false
                return state.isCancelled
            }
            if isCancelled { watch.interrupt() }
            return watch
        } catch {
            let isNews = state.withLock { state in
                defer { state.hasToldOfWatch = true }
                state.watch = nil
                return !state.hasToldOfWatch
            }
            if isNews { handlers.onEvent?(.failed(OutboxRounds.outboxError(error, folder))) }
            return nil
        }
    }

    /// Rule X14.
    private func wait(_ watch: FolderWatch?, _ nextTry: Date?) throws {
        let nextTry = nextTry.map { date in
            // At least a moment, so that a clock that stands still does not spin; and not for ever, since clocks are set.
            let seconds = min(max(date.timeIntervalSince(handlers.environment.now()), 0.001), 60)
            return Nanoseconds(seconds * 1e9)
        }
        let removal = rounds.removalIsDue.map { $0.subtractingSaturating(MonotonicClock.now) }
        try wait(watch, upTo: [nextTry, removal].compactMap(\.self).min())
    }

    private func wait(_ watch: FolderWatch?, upTo rest: Nanoseconds?) throws {
        if let watch {
            do {
                // The next round begins with another one.
                if try watch.wait(upTo: rest) == .gone { state.withLock { $0.watch = nil } }
            } catch let error as SystemError {
                throw OutboxError(error, folder: folder.path)
            }
        } else {
            sleep(min(rest ?? .max, OutboxQuestion.interval))
        }
    }

    private func sleep(_ time: Nanoseconds) { _ = wake.wait(timeout: .now() + .nanoseconds(Int(clamping: time))) }

    private func waitForGate() {
        let id = gate.onChange { [wake] in wake.signal() }
        if gate.isClosed, !isCancelled { wake.wait() }
        gate.cancel(id)
    }
}
