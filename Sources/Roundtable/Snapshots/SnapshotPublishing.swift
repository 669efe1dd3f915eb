import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// What a `SnapshotPublisher` does (rules V7–V9): fetches, compares, writes, whatever the type of the value.
///
/// Several may be at it at once: the queue, `publishNow`, a suspension. Each looks at the file before it fetches, and writes only if the file
/// is still the same then, and nobody of this process has settled meanwhile what it is to hold; so what was fetched earlier never
/// replaces what was fetched later.
final class SnapshotPublishing: Sendable {
    /// What was fetched, still to be encoded, which need not be done in a transaction.
    struct Fetched: Sendable {
        let encode: @Sendable () throws -> [UInt8]
        /// Whether it can come from this database alone. Commits to attached ones cannot be told: whoever has opened them commits to them,
        /// and this database knows nothing of it.
        fileprivate var isOfMainAlone = false

        init(encode: @escaping @Sendable () throws -> [UInt8]) { self.encode = encode }
    }

    enum Placement {
        /// The file holds it, and did before: then it was not written.
        case isThere(SnapshotInfo, wasWritten: Bool)
        case isOvertaken
        case wasCalledOff
    }

    /// How the database and the file are before a fetch.
    private struct Look {
        /// nil when it cannot be told.
        let commits: Commits?
        let file: SnapshotLook
    }

    /// A place in all that is committed to the database, but not to those attached to it.
    private struct Commits {
        let last: WalIndex.Header

        init?(_ database: SharedDatabase?) {
            guard let database, let last = database.observatory.lastCommit else { return nil }
            self.last = last
        }

        /// Whether nothing was committed since that place.
        func isSame(as earlier: Commits) -> Bool {
            last.commits(since: earlier.last.commitCounter, at: earlier.last.mark) == .none
        }
    }

    private struct State {
        var schedule: PublishingSchedule
        /// What the file holds, as far as it was put or found there, and of which commit or a later one it is. nil when that cannot be told.
        var shown: (header: SnapshotHeader, commits: Commits)?
        /// Kept open until this ends.
        var database: SharedDatabase?
        var changes: AnyDatabaseCancellable?
        /// The fetch that runs.
        var fetch: AnyDatabaseCancellable?
    }

    private let store: SnapshotStore
    private let encoding: SnapshotHeader.Encoding
    private let fetch: @Sendable (Database) throws -> Fetched
    private let onPublish: (@Sendable (SnapshotInfo) -> Void)?
    private let reloads: WidgetReloads?
    private let onError: (@Sendable (any Error) -> Void)?
    private let queue: DispatchQueue
    private let state: Mutex<State>

    init(
        _ store: SnapshotStore,
        _ encoding: SnapshotHeader.Encoding,
        database: SharedDatabase,
        interval: Nanoseconds,
        reloads: WidgetReloads?,
        onPublish: (@Sendable (SnapshotInfo) -> Void)?,
        onError: (@Sendable (any Error) -> Void)?,
        fetch: @escaping @Sendable (Database) throws -> Fetched
    ) {
        self.store = store
        self.encoding = encoding
        self.reloads = reloads
        self.onPublish = onPublish
        self.onError = onError
        self.fetch = { db in
            var fetched = try fetch(db)
            // Afterwards: the closure may have attached one.
            fetched.isOfMainAlone = try !db.hasAttachedDatabases
            return fetched
        }
        queue = DispatchQueue(label: "Roundtable.SnapshotPublisher", qos: .utility)
        state = Mutex(State(schedule: PublishingSchedule(interval: interval), database: database))
    }

    var isAtRest: Bool { state.withLock { $0.schedule.isAtRest } }

    private var database: SharedDatabase? { state.withLock { $0.database } }

    // MARK: Following the database

    /// - throws: when the database cannot be observed.
    func start() throws {
        do {
            try followChanges()
            perform { $0.next(at: $1) }
        } catch let error as DatabaseError where error.isSuspension {
            // When it is resumed.
            state.withLock { $0.schedule.suspend() }
        }
    }

    private func followChanges() throws {
        guard let database, state.withLock({ $0.changes == nil }) else { return }
        // On the thread that learns of commits: this decides whether they matter, and no more.
        let changes = try database.observeChanges(on: nil) { [weak self] change in
            self?.perform { $0.changed(change.tables, at: $1) }
        }
        let isLate = state.withLock { state in
            if state.schedule.hasEnded { return true }
            state.changes = changes
            return false
        }
        if isLate { changes.cancel() }
    }

    private func perform(_ event: (inout PublishingSchedule, Nanoseconds) -> PublishingSchedule.Action) {
        let now = MonotonicClock.now
        switch state.withLock({ event(&$0.schedule, now) }) {
        case .none: break
        case .fetch: queue.async { [weak self] in self?.beginFetching() }
        case .check: queue.async { [weak self] in self?.check() }
        case .wake(let time):
            let pause = DispatchTimeInterval.nanoseconds(Int(clamping: time - now))
            queue.asyncAfter(deadline: .now() + pause) { [weak self] in self?.perform { $0.timeHasCome(at: $1) } }
        }
    }

    /// No more of this.
    func end() {
        let last = state.withLock { state in
            let last = state
            state.schedule.end()
            (state.database, state.changes, state.fetch) = (nil, nil, nil)
            return last
        }
        last.changes?.cancel()
        last.fetch?.cancel()
        last.database?.publishers.remove(self)
        // After what is still to be told.
        if last.database != nil { queue.async { [reloads] in reloads?.leave() } }
    }

    // MARK: Fetching on the queue

    /// What a fetch has read. GRDB tells it to observations only, so each fetch is one that is over with its first value.
    private final class Tracking: Sendable {
        private let seen = Mutex<DatabaseRegion?>(nil)
        private let isOver = Atomic(false)
        var region: DatabaseRegion? { seen.withLock { $0 } }
        func track(_ region: DatabaseRegion) { seen.withLock { $0 = region } }
        /// - returns: whether it was not over before.
        func end() -> Bool { !isOver.exchange(true, ordering: .relaxed) }
    }

    /// Where something may have changed, and nobody has said so.
    private func check() {
        if isUpToDate {
            perform { $0.finished(.isUnchanged, region: nil, at: $1) }
        } else {
            beginFetching()
        }
    }

    private func look() -> Look { Look(commits: Commits(database), file: store.look()) }

    /// Whether nothing was committed since the file got what it holds, and it still holds that. Takes no lock that is held for longer than a
    /// moment.
    private var isUpToDate: Bool {
        let (shown, database) = state.withLock { ($0.schedule.hasNews ? nil : $0.shown, $0.database) }
        guard let shown, let commits = Commits(database), commits.isSame(as: shown.commits) else { return false }
        guard case .whole(let header, _)? = try? store.contents() else { return false }
        return header == shown.header
    }

    private func beginFetching() {
        guard let database else { return }
        let look = look()
        let tracking = Tracking()
        let observation = ValueObservation.tracking(fetch).handleEvents(willTrackRegion: { tracking.track($0) })
        let running = observation.start(in: database, scheduling: .async(onQueue: queue)) { [weak self] error in
            if tracking.end() { self?.finishFetching(.failure(error), tracking, since: look) }
        } onChange: { [weak self] fetched in
            if tracking.end() { self?.finishFetching(.success(fetched), tracking, since: look) }
        }
        // What it tells comes on this queue, so later.
        let isLate = state.withLock { state in
            if state.schedule.hasEnded { return true }
            state.fetch = running
            return false
        }
        if isLate { running.cancel() }
    }

    private func finishFetching(_ result: Result<Fetched, any Error>, _ tracking: Tracking, since look: Look) {
        let running = state.withLock { state in
            defer { state.fetch = nil }
            return state.fetch
        }
        running?.cancel()
        guard database != nil else { return }
        let outcome: PublishingSchedule.Outcome
        do {
            let placement = try put(try result.get(), since: look) { [self] in
                state.withLock { !$0.schedule.isSuspended && !$0.schedule.hasEnded }
            }
            switch placement {
            case .isThere(let info, let wasWritten):
                if wasWritten { tellPublished(info) }
                outcome = .isPublished
            case .isOvertaken: outcome = .isOvertaken
            case .wasCalledOff: outcome = .wasCalledOff
            }
        } catch let error as DatabaseError where error.isSuspension {
            outcome = .wasCalledOff
        } catch {
            onError?(error)
            outcome = .hasFailed
        }
        perform { $0.finished(outcome, region: tracking.region, at: $1) }
    }

    // MARK: Writing

    /// Rule V7.
    private func put(_ fetched: Fetched, since look: Look, isAllowed: () -> Bool) throws -> Placement {
        let bytes = try fetched.encode()
        guard isAllowed() else { return .wasCalledOff }
        let found = try present(bytes, look.file.mark)
        // Another thread may be about to write what was there in between.
        if try found != nil && !store.keep(look.file) { return .isOvertaken }
        guard let header = try found ?? store.write(bytes, encoding, replacing: look.file) else { return .isOvertaken }
        state.withLock { state in state.shown = fetched.isOfMainAlone ? look.commits.map { (header, $0) } : nil }
        return .isThere(SnapshotInfo(header), wasWritten: found == nil)
    }

    /// - returns: the header of the file, if it holds these bytes.
    private func present(_ bytes: [UInt8], _ mark: SnapshotMark) throws -> SnapshotHeader? {
        guard case .whole(let header) = mark, store.describes(header, bytes, encoding),
            case .whole(let found, let value) = try store.contents(), found == header, value.elementsEqual(bytes)
        else { return nil }
        return header
    }

    // MARK: At once

    /// Fetches, and makes the file hold that.
    ///
    /// - parameter isAllowed: asked before it fetches, and before the file is written.
    /// - returns: nil when it is not allowed.
    /// - throws: ``SnapshotFileError/publishingEnded(path:)`` when this has ended.
    func publish(isAllowed: () -> Bool = { true }) throws -> (info: SnapshotInfo, wasWritten: Bool)? {
        for _ in 0..<PublishingSchedule.patience {
            guard let database else { throw ended }
            guard isAllowed() else { return nil }
            let look = look()
            let fetched = try database.read { [fetch] db in try fetch(db) }
            switch try put(fetched, since: look, isAllowed: isAllowed) {
            case .isThere(let info, let wasWritten): return (info, wasWritten)
            case .isOvertaken: continue
            case .wasCalledOff: return nil
            }
        }
        throw SnapshotFileError.contended(path: store.path)
    }

    /// `publish`, and whoever follows this is told.
    func publishTelling() throws -> SnapshotInfo {
        guard let (info, wasWritten) = try publish() else { throw ended }
        if wasWritten { queue.async { [self] in tellPublished(info) } }
        return info
    }

    private var ended: SnapshotFileError { .publishingEnded(path: store.path) }

    /// On the queue.
    private func tellPublished(_ info: SnapshotInfo) {
        reloads?.published()
        onPublish?(info)
    }

    /// What is told on the queue is told when this returns. Not on the queue.
    func waitForTelling() { queue.sync {} }

    /// The last thing before the database is closed. If it is not, `resume` follows.
    func flush() {
        state.withLock { $0.schedule.suspend() }
        if isUpToDate { return }
        do {
            _ = try publishTelling()
        } catch SnapshotFileError.publishingEnded {
        } catch {
            tell(error)
        }
    }

    private func tell(_ error: any Error) {
        if let onError { queue.async { onError(error) } }
    }

    // MARK: Suspension

    /// Publishes on a thread of its own; afterwards nothing is done until `resume`.
    ///
    /// - Parameters:
    ///   - isAllowed: whether there is still time.
    ///   - completion: called when it is done, and `onPublish` has returned.
    func suspend(isAllowed: @escaping @Sendable () -> Bool, completion: @escaping @Sendable () -> Void) {
        state.withLock { $0.schedule.suspend() }
        Thread.detachNewThread { [self] in
            do {
                if !isUpToDate, let (info, wasWritten) = try publish(isAllowed: isAllowed), wasWritten {
                    return queue.async { [self] in
                        tellPublished(info)
                        reloads?.leave()
                        completion()
                    }
                }
            } catch SnapshotFileError.publishingEnded {
            } catch let error as DatabaseError where error.isSuspension {
                // Too late: when it is resumed.
            } catch {
                tell(error)
            }
            reloads?.leave()
            completion()
        }
    }

    func resume() {
        do {
            try followChanges()
        } catch let error as DatabaseError where error.isSuspension {
            return
        } catch {
            tell(error)
            queue.asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in self?.resume() }
            return
        }
        perform { $0.resume(at: $1) }
        reloads?.resume()
    }
}
