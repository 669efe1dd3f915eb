import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// The snapshots of one participant. This type shows the oldest of their reads in the participant's slot (rule O2), and reports those
/// that last too long.
final class LongReads: Parkable {
    private struct Entry {
        weak var snapshot: SharedDatabaseSnapshot?
        /// nil while the snapshot has no moment.
        var read: OldestRead?
        let site: CallSite
        var hasWarned = false
        /// When to inspect the snapshot again, after it was found within the limits; 0 before that.
        var lookAgainAt: Nanoseconds = 0
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var isClosed = false
        var isParked = false
        /// The number of snapshots that are opening a connection.
        var opening = 0
        /// The timer for the next snapshot that passes a limit of age, and the time when it fires.
        var alarm: (item: DispatchWorkItem, time: Nanoseconds)?
    }

    private let opening: ConnectionOpening
    private let path: String
    private let options: SharedDatabase.Options
    private let seat: Seat
    private let readers: ReaderPool
    private let closings: ConnectionClosings
    private let watch: NewerSchemaWatch?
    private let limit: LongRead.Limit
    private let maximumAge: Nanoseconds?
    private let reporter: EventReporter
    /// Called with each access to a snapshot.
    private let willRead: @Sendable () -> Void
    private let state = Mutex(State())
    private let isEmpty = Atomic(true)
    private let awaitsCheckpoint = Atomic(false)
    private let lastVainStep = Atomic<Nanoseconds>(0)

    init(
        path: String,
        options: SharedDatabase.Options,
        seat: Seat,
        readers: ReaderPool,
        closings: ConnectionClosings,
        watch: NewerSchemaWatch?,
        willRead: @escaping @Sendable () -> Void
    ) {
        self.willRead = willRead
        self.watch = watch
        self.path = path
        self.options = options
        opening = options.connectionOpening(path)
        self.seat = seat
        self.readers = readers
        self.closings = closings
        limit = options.longReadLimit
        reporter = options.reporter
        maximumAge = options.maximumSnapshotAge.map { max(1_000_000, $0.nanoseconds) }
    }

    /// The configuration of a snapshot's connection.
    var configuration: Configuration {
        var configuration = options.readerConfiguration(path: path, seat: seat)
        // A read transaction stays open between accesses.
        configuration.allowsUnsafeTransactions = true
        return configuration
    }

    // MARK: Snapshots

    /// Closes the connection of a snapshot that has given it up.
    func close(_ connection: ReaderConnection, of snapshot: SharedDatabaseSnapshot) -> ConnectionClosing {
        closings.begin(connection.queue, .snapshot, at: snapshot.callSite) { db in
            // Nothing was written. A statement that keeps the transaction from ending also keeps the connection from closing.
            try? connection.end(db)
            connection.finalize()
        }
    }

    func openConnection() throws -> ReaderConnection { try ReaderConnection(opening, configuration, watch: watch) }

    /// Notes that a snapshot is at a new moment.
    ///
    /// - throws: `SQLITE_MISUSE` when the database is closed.
    func began(_ snapshot: SharedDatabaseSnapshot, _ read: OldestRead, at site: CallSite) throws {
        try state.withLock { state in
            if state.isClosed { throw DatabaseError.closed(path) }
            state.entries[ObjectIdentifier(snapshot)] = Entry(snapshot: snapshot, read: read, site: site)
            isEmpty.store(false, ordering: .relaxed)
            show(&state)
        }
    }

    /// Notes that a snapshot has lost its moment.
    func lost(_ snapshot: SharedDatabaseSnapshot) { change { $0[ObjectIdentifier(snapshot)]?.read = nil } }

    func ended(_ snapshot: ObjectIdentifier) { change { $0[snapshot] = nil } }

    private func change(_ entries: (inout [ObjectIdentifier: Entry]) -> Void) {
        state.withLock { state in
            entries(&state.entries)
            isEmpty.store(state.entries.values.allSatisfy { $0.read == nil }, ordering: .relaxed)
            show(&state)
        }
    }

    /// Closes all snapshots, and runs `body`. No snapshot begins after that, unless one of the two fails.
    func close(_ body: () throws -> Void) throws {
        let snapshots = state.withLock { state in
            state.isClosed = true
            return state.entries.values.compactMap(\.snapshot)
        }
        do {
            for snapshot in snapshots { try snapshot.close() }
            try body()
        } catch {
            state.withLock { $0.isClosed = false }
            throw error
        }
    }

    // MARK: Parking

    var use: HeldConnection.Use { .snapshot }

    var isParked: Bool { state.withLock { $0.isParked } }

    /// Called before a snapshot opens a connection. The snapshot calls `endOpening` afterwards.
    func beginOpening() throws {
        try state.withLock { state in
            if state.isClosed { throw DatabaseError.closed(path) }
            if state.isParked { throw DatabaseError.suspended(path) }
            state.opening += 1
        }
    }

    func endOpening() {
        let isParked = state.withLock { state in
            state.opening -= 1
            return state.isParked
        }
        guard isParked else { return }
        // The thread that parks may have stopped waiting for this connection.
        DispatchQueue.global().async { _ = self.stepParking() }
    }

    /// Keeps snapshots from opening connections until `unpark`.
    func park() -> Bool {
        state.withLock { $0.isParked = true }
        return true
    }

    /// Gives the connections of snapshots up.
    ///
    /// - returns: the connections that are being opened.
    func stepParking() -> [HeldConnection] {
        let (snapshots, opening) = state.withLock { state in
            (state.entries.values.compactMap(\.snapshot), state.opening)
        }
        for snapshot in snapshots { snapshot.park() }
        return Array(repeating: HeldConnection(use: .snapshot), count: opening)
    }

    /// Lets snapshots open connections again.
    func unpark() { state.withLock { $0.isParked = false } }

    /// The control block that is beside the database now. A participant with a seat has one mapping for all snapshots.
    var controlBlock: ControlBlock? {
        if let block = seat.participant?.block, block.isIntact, block.isInPlace { return block }
        return try? ControlBlock.open(forDatabaseAt: path, writable: false)
    }

    // MARK: Stepping aside

    var isAwaitingCheckpoint: Bool { awaitsCheckpoint.load(ordering: .acquiring) }

    /// Calls `body`, unless an earlier `body` has not called `done` yet.
    func askForCheckpoint(_ body: (_ done: @escaping @Sendable () -> Void) -> Void) {
        if awaitsCheckpoint.exchange(true, ordering: .acquiringAndReleasing) { return }
        body { self.awaitsCheckpoint.store(false, ordering: .releasing) }
    }

    /// Whether an advance may wait for a checkpoint. After a wait in vain, advances do not wait for 50 ms, because another reader may
    /// hold the WAL back.
    func mayStepAside(at now: Nanoseconds) -> Bool {
        now &- lastVainStep.load(ordering: .relaxed) >= Self.vainStepInterval
    }

    func steppedAsideInVain(at now: Nanoseconds) { lastVainStep.store(now, ordering: .relaxed) }

    private static let vainStepInterval: Nanoseconds = 50_000_000

    // MARK: Looking

    /// Reports reads that last too long. It is called with each access to a snapshot and after each write of this participant, and is
    /// cheap while there is no snapshot.
    func look(_ db: Database) {
        if isEmpty.load(ordering: .relaxed) { return }
        willRead()
        guard let header = WalIndex(db)?.header else { return }
        let now = MonotonicClock.now
        let lasting = state.withLock { state in
            show(&state)
            return takeLasting(&state, at: header.mark, now: now)
        }
        report(lasting)
    }

    /// A snapshot and what is reported of it. It keeps the snapshot: its last reference must not be released with the lock.
    private typealias Lasting = (snapshot: SharedDatabaseSnapshot, read: LongRead)

    private func report(_ lasting: [Lasting]) {
        for (_, read) in lasting { reporter.report(read) }
    }

    /// Returns the reads past the limit. Each moment of a snapshot is returned once.
    private func takeLasting(_ state: inout State, at mark: WalMark, now: Nanoseconds) -> [Lasting] {
        var lasting: [Lasting] = []
        let asked = readers.askedToAdvance ?? 0
        for (key, entry) in state.entries where !entry.hasWarned {
            guard let read = entry.read else { continue }
            let age = Duration.nanoseconds(Int64(clamping: now.subtractingSaturating(read.since)))
            let held = read.mark.framesHeld(now: mark)
            // The read is in the way if it is older than the last request to advance (rule K8).
            let isInTheWay = held > 0 && asked >= read.since
            guard isInTheWay || limit.isPassed(age: age, heldFrames: held), let snapshot = entry.snapshot else {
                state.entries[key]?.lookAgainAt = Self.nextLook(at: read, now: now)
                continue
            }
            state.entries[key]?.hasWarned = true
            lasting.append((snapshot, LongRead(snapshot, age: age, heldFrames: held)))
        }
        return lasting
    }

    // MARK: Showing

    private func show(_ state: inout State) {
        let reads = state.entries.values.compactMap { entry in entry.read.map { (read: $0, site: entry.site) } }
        readers.show(snapshot: reads.min { $0.read.since < $1.read.since }.map { ($0.read, $0.site) })
        setAlarm(&state)
    }
}

// MARK: - The clock

extension LongReads {
    /// When to inspect a snapshot again that is old and holds nothing back: after an eighth of its age, at least 1 s. So an idle process
    /// that keeps a snapshot for a day wakes about 80 times for it.
    static func nextLook(at read: OldestRead, now: Nanoseconds) -> Nanoseconds {
        now.addingSaturating(max(1_000_000_000, now.subtractingSaturating(read.since) / 8))
    }

    /// Sets one timer for the next limit of age that a snapshot passes, and none if there is nothing to watch. A timer that fires too
    /// early is kept, so that a snapshot that advances often costs nothing.
    private func setAlarm(_ state: inout State) {
        let due = state.entries.values.compactMap(due).min()
        guard let due else {
            state.alarm?.item.cancel()
            state.alarm = nil
            return
        }
        if let alarm = state.alarm, alarm.time <= due { return }
        state.alarm?.item.cancel()
        let item = DispatchWorkItem { [weak self] in self?.ring() }
        state.alarm = (item, due)
        let now = MonotonicClock.now
        let wait = Int(clamping: due.subtractingSaturating(now))
        DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(wait), execute: item)
    }

    /// For tests.
    var hasAlarm: Bool { state.withLock { $0.alarm != nil } }
    var hasLookedInVain: Bool { state.withLock { $0.entries.values.contains { $0.lookAgainAt > 0 } } }

    private func due(_ entry: Entry) -> Nanoseconds? {
        guard let read = entry.read else { return nil }
        let end = maximumAge.map(read.since.addingSaturating)
        guard !entry.hasWarned else { return end }
        let warning = max(entry.lookAgainAt, read.since.addingSaturating(limit.age.nanoseconds))
        return min(warning, end ?? .max)
    }

    private func ring() {
        // This is done outside of the lock, because it may open a connection.
        let end = try? readers.walState(insideWrite: false).end
        let now = MonotonicClock.now
        let (lasting, expired) = state.withLock { state in
            state.alarm = nil
            let lasting = end.map { takeLasting(&state, at: $0, now: now) } ?? []
            if end == nil {
                for (key, entry) in state.entries {
                    guard let read = entry.read else { continue }
                    state.entries[key]?.lookAgainAt = Self.nextLook(at: read, now: now)
                }
            }
            var expired: [SharedDatabaseSnapshot] = []
            for (key, entry) in state.entries {
                guard let maximumAge, let read = entry.read, let snapshot = entry.snapshot,
                    now.subtractingSaturating(read.since) >= maximumAge
                else { continue }
                state.entries[key]?.read = nil
                expired.append(snapshot)
            }
            show(&state)
            return (lasting, expired)
        }
        report(lasting)
        for snapshot in expired { expire(snapshot) }
    }

    // MARK: Ending

    private func expire(_ snapshot: SharedDatabaseSnapshot) {
        guard let maximumAge, let closing = snapshot.expire(atAge: maximumAge) else { return }
        Self.pursue(closing, after: 10_000_000)
    }

    /// Interrupts what runs on a connection, until it is closed. One interruption may not be enough, because a closure may continue with
    /// another statement, and a cursor may outlive the closure.
    private static func pursue(_ closing: ConnectionClosing, after pause: Nanoseconds) {
        closing.interrupt()
        if closing.step() { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(pause))) {
            pursue(closing, after: min(2 * pause, 1_000_000_000))
        }
    }
}
