import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// The snapshots of one participant: shows the oldest of their reads in its slot (rule O2), and tells of those that last
/// too long.
final class LongReads: Sendable {
    private struct Entry {
        weak var snapshot: SharedDatabaseSnapshot?
        /// nil while it is at no moment.
        var read: OldestRead?
        var hasWarned = false
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var isClosed = false
        var isParked = false
        /// Snapshots that are opening a connection.
        var opening = 0
        /// Connections that snapshots have given up.
        var leaving: [(closing: ConnectionClosing, callSite: String)] = []
        /// Where the oldest is shown. Another seat is told anew.
        weak var shownBy: Participant?
        var shown: OldestRead?
    }

    let configuration: Configuration
    private let path: String
    private let seat: Seat
    private let limit: LongRead.Limit
    private let onLongRead: (@Sendable (LongRead) -> Void)?
    private let state = Mutex(State())
    private let isEmpty = Atomic(true)
    private let awaitsCheckpoint = Atomic(false)
    private let lastVainStep = Atomic<Nanoseconds>(0)

    init(path: String, options: SharedDatabase.Options, seat: Seat) {
        self.path = path
        var configuration = options.readerConfiguration
        // A read transaction stays open between accesses.
        configuration.allowsUnsafeTransactions = true
        self.configuration = configuration
        self.seat = seat
        limit = options.longReadLimit
        onLongRead = options.onLongRead
    }

    // MARK: Snapshots

    /// A snapshot is at a new moment.
    ///
    /// - throws: `SQLITE_MISUSE` when the database is closed.
    func began(_ snapshot: SharedDatabaseSnapshot, _ read: OldestRead) throws {
        try state.withLock { state in
            if state.isClosed { throw DatabaseError.closed }
            state.entries[ObjectIdentifier(snapshot)] = Entry(snapshot: snapshot, read: read)
            isEmpty.store(false, ordering: .relaxed)
            show(&state)
        }
    }

    /// A snapshot has lost its moment.
    func lost(_ snapshot: SharedDatabaseSnapshot) {
        state.withLock { state in
            state.entries[ObjectIdentifier(snapshot)]?.read = nil
            isEmpty.store(state.entries.values.allSatisfy { $0.read == nil }, ordering: .relaxed)
            show(&state)
        }
    }

    func ended(_ snapshot: ObjectIdentifier) {
        state.withLock { state in
            state.entries[snapshot] = nil
            isEmpty.store(state.entries.values.allSatisfy { $0.read == nil }, ordering: .relaxed)
            show(&state)
        }
    }

    /// Ends all snapshots, runs `body`, and begins no others unless that fails.
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

    var isParked: Bool { state.withLock { $0.isParked } }

    /// A snapshot opens a connection; it calls `endOpening` when it has it.
    func beginOpening() throws {
        try state.withLock { state in
            if state.isClosed { throw DatabaseError.closed }
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
        // Perhaps nobody waits for it any more.
        DispatchQueue.global().async { _ = self.stepParking() }
    }

    /// From now on, no snapshot opens a connection.
    func park() { state.withLock { $0.isParked = true } }

    /// - returns: what keeps connections open.
    func stepParking() -> [HeldConnection] {
        let (snapshots, opening) = state.withLock { state in
            (state.entries.values.compactMap(\.snapshot), state.opening)
        }
        for snapshot in snapshots {
            guard let closing = snapshot.park() else { continue }
            state.withLock { $0.leaving.append((closing, snapshot.callSite)) }
        }
        let open = state.withLock { $0.leaving }.filter { $0.closing.step() != .closed }
        state.withLock { $0.leaving.removeAll { $0.closing.outcome == .closed } }
        return open.map { closing, site in
            HeldConnection(use: .snapshot, callSite: site, isByStatement: closing.outcome == .isInUse)
        } + Array(repeating: HeldConnection(use: .snapshot), count: opening)
    }

    func interruptParking() {
        for (closing, _) in state.withLock({ $0.leaving }) { closing.interrupt() }
    }

    /// Snapshots may advance.
    func unpark() { state.withLock { $0.isParked = false } }

    /// The control block that lies beside the database now: one mapping for all snapshots, where there is a seat.
    var controlBlock: ControlBlock? {
        if let block = seat.participant?.block, block.isIntact, block.isInPlace { return block }
        return try? ControlBlock.open(at: ControlBlock.path(forDatabaseAt: path), writable: false)
    }

    // MARK: Stepping aside

    var isAwaitingCheckpoint: Bool { awaitsCheckpoint.load(ordering: .acquiring) }

    /// Calls `body`, unless an earlier one has not called `done` yet.
    func askForCheckpoint(_ body: (_ done: @escaping @Sendable () -> Void) -> Void) {
        if awaitsCheckpoint.exchange(true, ordering: .acquiringAndReleasing) { return }
        body { self.awaitsCheckpoint.store(false, ordering: .releasing) }
    }

    /// Another reader may hold the WAL back: not each advance waits for it in vain.
    func mayStepAside(at now: Nanoseconds) -> Bool {
        now &- lastVainStep.load(ordering: .relaxed) >= Self.vainStepInterval
    }

    func steppedAsideInVain(at now: Nanoseconds) { lastVainStep.store(now, ordering: .relaxed) }

    private static let vainStepInterval: Nanoseconds = 50_000_000

    // MARK: Looking

    /// Looks whether a read lasts too long. Cheap while there is none.
    ///
    /// No thread does so by itself: it is asked for with each access to a snapshot, and after each write of this
    /// participant.
    func look(_ db: Database) {
        guard !isEmpty.load(ordering: .relaxed), let header = WalIndex(db)?.header else { return }
        let now = MonotonicClock.now
        let lasting = state.withLock { state in
            show(&state)
            return onLongRead == nil ? [] : takeLasting(&state, at: header.mark, now: now)
        }
        guard let onLongRead, !lasting.isEmpty else { return }
        // Not on this thread, which may be inside of anything.
        DispatchQueue.global().async { lasting.forEach(onLongRead) }
    }

    /// Those past the limit, once each.
    private func takeLasting(_ state: inout State, at mark: WalMark, now: Nanoseconds) -> [LongRead] {
        var lasting: [LongRead] = []
        for (key, entry) in state.entries where !entry.hasWarned {
            guard let read = entry.read else { continue }
            let age = TimeInterval(now.subtractingSaturating(read.since)) / 1e9
            let held = read.mark.framesHeld(now: mark)
            guard limit.isPassed(age: age, heldFrames: held), let snapshot = entry.snapshot else { continue }
            state.entries[key]?.hasWarned = true
            lasting.append(LongRead(snapshot: snapshot, age: age, heldFrames: held))
        }
        return lasting
    }

    // MARK: Showing

    private func show(_ state: inout State) {
        guard let participant = seat.participant else { return }
        let oldest = state.entries.values.compactMap(\.read).min { $0.since < $1.since }
        guard participant !== state.shownBy || oldest != state.shown else { return }
        participant.show(oldest)
        state.shownBy = participant
        state.shown = oldest
    }
}
