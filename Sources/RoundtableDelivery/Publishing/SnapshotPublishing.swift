import Dispatch
import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableKernel
import Synchronization

/// The work of a `SnapshotPublisher` (rules V7–V9): it fetches, compares and writes, whatever the type of the value.
///
/// Several threads may publish at the same time: the queue, `publish`, a suspension. Each inspects the file before it fetches. It writes
/// only if the file is still the same afterwards, and no other thread of this process has settled meanwhile what the file holds. So
/// an earlier fetch never replaces a later one.
final class SnapshotPublishing: Sendable {
    /// A fetched value that is not encoded yet, because encoding needs no transaction.
    struct Fetched: Sendable {
        let encode: @Sendable () throws -> [UInt8]
        /// Whether the value can only come from this database. Commits to attached databases cannot be detected, because other
        /// connections make them without a commit to this database.
        fileprivate var isOfMainAlone = false

        init(encode: @escaping @Sendable () throws -> [UInt8]) { self.encode = encode }
    }

    enum Placement {
        /// The file holds the value. If it held the value before, it was not written.
        case isThere(SnapshotInfo, wasWritten: Bool)
        case isOvertaken
        case wasCalledOff
    }

    /// The state of the database and of the file before a fetch.
    private struct Look {
        /// nil when the state of the database is not known.
        let commits: CommitPosition?
        let file: SnapshotLook
    }

    private struct State {
        var schedule: PublishingSchedule
        /// The value that was last put or found in the file, and a commit that it includes; nil when that is not known.
        var shown: (header: SnapshotHeader, commits: CommitPosition)?
        /// The database, which is kept open until publishing ends.
        var database: SharedDatabase?
        var changes: AnyDatabaseCancellable?
        var fetch: AnyDatabaseCancellable?
        /// Whether a failure was reported, and its end was not.
        var isFailing = false
    }

    private let store: SnapshotStore
    private let encoding: SnapshotHeader.Encoding
    private let fetch: @Sendable (Database) throws -> Fetched
    private let onPublish: (@Sendable (SnapshotInfo) -> Void)?
    private let reloads: WidgetReloads?
    private let reporter: EventReporter
    private let queue: DispatchQueue
    private let state: Mutex<State>

    init(
        _ store: SnapshotStore,
        _ encoding: SnapshotHeader.Encoding,
        database: SharedDatabase,
        interval: Nanoseconds,
        reloads: WidgetReloads?,
        onPublish: (@Sendable (SnapshotInfo) -> Void)?,
        fetch: @escaping @Sendable (Database) throws -> Fetched
    ) {
        self.store = store
        self.encoding = encoding
        self.reloads = reloads
        self.onPublish = onPublish
        reporter = database.reporter
        self.fetch = { db in
            var fetched = try fetch(db)
            // The attached databases are checked after the fetch, because the closure may have attached one.
            fetched.isOfMainAlone = !db.hasAttachedDatabases
            return fetched
        }
        queue = DispatchQueue(label: "Roundtable.SnapshotPublisher", qos: .utility)
        state = Mutex(State(schedule: PublishingSchedule(interval: interval), database: database))
    }

    var isAtRest: Bool { state.withLock { $0.schedule.isAtRest } }

    private var database: SharedDatabase? { state.withLock { $0.database } }

    // MARK: Following the database

    /// - throws: `DatabaseError`, when the database cannot be observed.
    func start() throws {
        do {
            try followChanges()
            perform { $0.next(at: $1) }
        } catch let error as DatabaseError where error.isSuspension {
            // The publisher follows changes once the database is resumed.
            state.withLock { $0.schedule.suspend() }
        }
    }

    private func followChanges() throws {
        guard let database, state.withLock({ $0.changes == nil }) else { return }
        // This runs on the thread that detects commits. It only decides whether they matter.
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
        // This runs after the notifications that are pending on the queue.
        if last.database != nil { queue.async { [reloads] in reloads?.leave() } }
    }

    // MARK: Fetching on the queue

    /// The region that a fetch has read. GRDB reports it to observations only, so each fetch is an observation that ends with its
    /// first value.
    private final class Tracking: Sendable {
        private let seen = Mutex<DatabaseRegion?>(nil)
        private let isOver = Atomic(false)
        var region: DatabaseRegion? { seen.withLock { $0 } }
        func track(_ region: DatabaseRegion) { seen.withLock { $0 = region } }
        /// - returns: whether it had not ended before.
        func end() -> Bool { !isOver.exchange(true, ordering: .relaxed) }
    }

    /// Fetches if there may be a change that was not reported.
    private func check() {
        if isUpToDate {
            perform { $0.finished(.isUnchanged, region: nil, at: $1) }
        } else {
            beginFetching()
        }
    }

    private func look() -> Look { Look(commits: CommitPosition(database), file: store.look()) }

    /// Whether nothing was committed since the file got its value, and the file still holds it. Takes no lock that is held for longer
    /// than a moment.
    private var isUpToDate: Bool {
        let (shown, database) = state.withLock { ($0.schedule.hasNews ? nil : $0.shown, $0.database) }
        guard let shown, let commits = CommitPosition(database), commits.isSame(as: shown.commits) else { return false }
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
        // The observation reports on this queue, so it cannot have reported yet.
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
                if wasWritten { notifyPublished(info) }
                outcome = .isPublished
            case .isOvertaken: outcome = .isOvertaken
            case .wasCalledOff: outcome = .wasCalledOff
            }
        } catch let error as DatabaseError where error.isSuspension {
            outcome = .wasCalledOff
        } catch {
            report(error)
            outcome = .hasFailed
        }
        perform { $0.finished(outcome, region: tracking.region, at: $1) }
    }

    // MARK: Writing

    // Rule V7: A publisher looks at the file, fetches, and writes nothing if the file holds the same bytes under the same version. It
    // renames the successor only if the file is still the one that it looked at; otherwise it looks and fetches again.

    /// Makes the file hold a fetched value, unless the file has been replaced since `look` (rule V7).
    private func put(_ fetched: Fetched, since look: Look, isAllowed: () -> Bool) throws -> Placement {
        let bytes = try fetched.encode()
        guard isAllowed() else { return .wasCalledOff }
        let found = try present(bytes, look.file.mark)
        // Another thread may be about to write a value that was fetched in between.
        if try found != nil && !store.keep(look.file) { return .isOvertaken }
        guard let header = try found ?? store.write(bytes, encoding, replacing: look.file) else { return .isOvertaken }
        let hasRecovered = state.withLock { state in
            state.shown = fetched.isOfMainAlone ? look.commits.map { (header, $0) } : nil
            defer { state.isFailing = false }
            return state.isFailing
        }
        if hasRecovered { reporter.report(PublishingEvent.recovered(path: store.path)) }
        return .isThere(SnapshotInfo(header), wasWritten: found == nil)
    }

    /// - returns: the header of the file, if it holds these bytes.
    private func present(_ bytes: [UInt8], _ mark: SnapshotMark) throws -> SnapshotHeader? {
        guard case .whole(let header) = mark, store.describes(header, bytes, encoding),
            case .whole(let found, let value) = try store.contents(), found == header, value.elementsEqual(bytes)
        else { return nil }
        return header
    }

    // MARK: Publishing immediately

    /// Fetches a value, and makes the file hold it.
    ///
    /// - parameter isAllowed: asked before the fetch, and before the file is written.
    /// - returns: nil when it is not allowed.
    /// - throws: ``SnapshotFileError/publishingEnded(path:)`` when publishing has ended.
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

    /// Calls `publish`, and notifies widgets and `onPublish` if the file was written.
    func publishTelling() throws -> SnapshotInfo {
        guard let (info, wasWritten) = try publish() else { throw ended }
        if wasWritten { queue.async { [self] in notifyPublished(info) } }
        return info
    }

    private var ended: SnapshotFileError { .publishingEnded(path: store.path) }

    /// Notifies widgets and `onPublish`. Must be called on the queue.
    private func notifyPublished(_ info: SnapshotInfo) {
        reloads?.published()
        onPublish?(info)
    }

    /// Waits until the notifications that are pending on the queue have been delivered. Must not be called on the queue.
    func waitForTelling() { queue.sync {} }

    /// Publishes the last state before the database is closed. If it stays open, `resume` follows.
    func flush() {
        state.withLock { $0.schedule.suspend() }
        if isUpToDate { return }
        do {
            _ = try publishTelling()
        } catch SnapshotFileError.publishingEnded {
        } catch {
            report(error)
        }
    }

    private func report(_ error: any Error) {
        state.withLock { $0.isFailing = true }
        reporter.report(PublishingEvent.failed(path: store.path, error))
    }

    // MARK: Suspension

    /// Publishes on a thread of its own. Afterwards the schedule begins no fetch until `resume`.
    ///
    /// - Parameters:
    ///   - isAllowed: whether there is time left.
    ///   - completion: called when publishing is done, and `onPublish` has returned.
    func suspend(isAllowed: @escaping @Sendable () -> Bool, completion: @escaping @Sendable () -> Void) {
        state.withLock { $0.schedule.suspend() }
        DetachedThread.startOrQueue { [self] in
            do {
                if !isUpToDate, let (info, wasWritten) = try publish(isAllowed: isAllowed), wasWritten {
                    return queue.async { [self] in
                        notifyPublished(info)
                        reloads?.leave()
                        completion()
                    }
                }
            } catch SnapshotFileError.publishingEnded {
            } catch let error as DatabaseError where error.isSuspension {
                // There was no time left. The value is published when the database is resumed.
            } catch {
                report(error)
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
            report(error)
            queue.asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in self?.resume() }
            return
        }
        perform { $0.resume(at: $1) }
        reloads?.resume()
    }
}
