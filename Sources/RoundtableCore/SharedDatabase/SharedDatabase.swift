import CRoundtableShims
import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

/// One SQLite database, shared by many processes.
///
/// Open it with the same line in every process, and use it like a GRDB `DatabasePool`: it is a `DatabaseReader` and a
/// `DatabaseWriter`, so everything written against those protocols works on it.
///
/// ```swift
/// let db = try await SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "app")
/// try await db.write { db in try Player(name: "Arthur").insert(db) }
/// let players = try await db.read { db in try Player.fetchAll(db) }
/// ```
///
/// - Reads run in parallel, each on a snapshot of the database, and never wait for a writer.
/// - Writes take turns with all other participants, in this process and in others: see <doc:WritesAndCheckpoints>.
///
/// A shared database is safe to use from any thread. It does not survive `fork` without `exec`: in the child, accesses
/// throw `SQLITE_MISUSE`, and so does opening the same database again.
public final class SharedDatabase: Sendable {
    /// What a participant may do.
    public enum Role: String, Sendable, Codable {
        case readWrite
        case readOnly
    }

    /// The path of the database file, with symbolic links resolved.
    public let path: String

    /// The name of this participant for other processes: in errors, in `status`.
    public let author: String

    public let role: Role

    package let writer: WriterConnection
    let readers: ReaderPool
    package let seat: Seat
    let rejoining: Rejoining
    let observatory: Observatory
    let longReads: LongReads
    let checkpointWarnings: CheckpointWarnings
    /// What happens to this database.
    package let reporter: EventReporter
    package let gate: SuspensionGate
    /// The options, completed by opening.
    let options: Options
    private let suspensionNotifications: SuspensionNotifications?
    private let forkGeneration: UInt32
    /// The files that this participant has open.
    package let files: DatabaseFiles
    let parking = Parking()
    /// The database whose turns the writes of this one take (rule W14).
    let lender: SharedDatabase?
    let announcements = Mutex(Announcements())
    let sharedCommits = SharedCommits()
    let waitingPriorities = WaitingPriorities()
    /// The connections that suspensions and snapshots have given up.
    let closings = ConnectionClosings()
    /// Measures accesses for metrics.
    package let metering = Hook<any AccessMeter>()
    package let tracing = Hook<any WriteTracer>()
    /// The companions of this database, in the order in which they are notified: those of the features.
    let companions: [any DatabaseCompanion]
    let features: [any DatabaseFeature]
    package let isClosed = Mutex(false)

    init(
        path: String,
        author: String,
        role: Role,
        options: Options,
        writer: WriterConnection,
        seat: Seat,
        gate: SuspensionGate,
        features: [any DatabaseFeature]
    ) {
        self.path = path
        self.features = features
        companions = features.compactMap(\.databaseCompanion)
        self.author = author
        self.role = role
        lender = options.turnsOf
        self.writer = writer
        self.seat = seat
        self.gate = gate
        suspensionNotifications =
            options.configuration.observesSuspensionNotifications
            ? SuspensionNotifications(gate, grace: options.suspensionGrace.nanoseconds) : nil
        self.forkGeneration = rt_fork_generation()
        reporter = options.reporter
        self.checkpointWarnings = CheckpointWarnings(reporter)
        self.options = options
        let files = options.files ?? DatabaseFiles(databasePath: path)
        self.files = files
        let opening = options.connectionOpening(path)
        let rejoining = Rejoining(seat)
        self.rejoining = rejoining
        self.readers = ReaderPool(
            path: path,
            maximumCount: options.maximumReaderCount,
            seat: seat,
            closings: closings,
            willRead: {
                try files.check(at: MonotonicClock.approximateNow)
                rejoining.look()
            }
        ) { [watch = writer.watch] in
            let configuration = options.readerConfiguration(path: path, seat: seat)
            do {
                return try ReaderConnection(opening, configuration, watch: watch)
            } catch let error as DatabaseError
                where [.SQLITE_BUSY, .SQLITE_FULL, .SQLITE_IOERR].contains(error.resultCode)
            {
                throw error.naming(path)
            }
        }
        self.longReads = LongReads(
            path: path,
            options: options,
            seat: seat,
            readers: readers,
            closings: closings,
            watch: writer.watch,
            willRead: rejoining.look
        )
        let observatory = Observatory(
            path: path,
            author: author,
            options: options,
            writer: writer,
            closings: closings,
            seat: seat,
            rejoining: rejoining
        )
        self.observatory = observatory
        if role == .readWrite {
            writer.take(seat)
            writer.recordCommits(for: observatory, keepsCommitted: lender != nil)
        }
        if options.observation == .always { observatory.observeOnWriterEventually() }
        gate.add(self)
        followCheckpoints()
        followSchema()
        followControlBlock()
        followFiles()
        CoordinationEvent.follow(seat, role, reporter)
        for feature in features { feature.attach(to: self) }
    }

    deinit {
        guard isInOwnProcess else {
            // Closing the connections of the parent would act on locks that the child does not have (rule W4).
            _ = Unmanaged.passRetained(writer)
            _ = Unmanaged.passRetained(readers)
            _ = Unmanaged.passRetained(seat)
            _ = Unmanaged.passRetained(observatory)
            return
        }
        for companion in companions { companion.databaseIsClosing() }
        // `deinit` may run on the queue of the connection for which `close` would wait.
        observatory.close(waiting: false)
        seat.leave()
        reporter.close()
    }

    /// Closes all connections, including those of snapshots, and leaves the other participants.
    ///
    /// Pending snapshot files are published first. This waits for running accesses to end. Later accesses throw `SQLITE_MISUSE`.
    ///
    /// - throws: `SQLITE_BUSY` when a statement or a cursor of yours is still alive, or a raw handle holds the turn. The database
    ///   stays open then.
    public func close() throws {
        try checkProcess()
        if isClosed.withLock({ $0 }) { return }
        if writer.borrower.withLock({ $0 != nil }) { throw DatabaseError.inRawTurn(path) }
        let isWithinAccess = Access.current(to: self) != nil
        for companion in companions { try companion.databaseWillClose(isWithinAccess: isWithinAccess) }
        var hasBegun = false
        do {
            try readers.closingBarrier {
                hasBegun = true
                // A checkpoint takes locks, so none is made while the gate is closed and the process may be frozen.
                let visit = gate.enter(.closing, at: nil, isRunning: true)
                defer { visit.map { gate.leave($0) } }
                try parking.exclusively {
                    // If one of these cannot close, the database stays open: only snapshots have been closed, and readers, which open
                    // again on demand.
                    try longReads.close {
                        try readers.closeIdle()
                        try writer.close(mayCheckpoint: visit != nil && files.look() == nil)
                    }
                    isClosed.withLock { $0 = true }
                    for companion in companions { companion.databaseIsClosing() }
                    observatory.close(waiting: true)
                    // On the queue, because the participant may be following a control block there.
                    if role == .readOnly { writer.queue.inDatabase { [seat] _ in seat.leave() } }
                    readers.close()
                    closings.step()
                }
                gate.abandon()
            }
            for companion in companions { companion.databaseDidClose() }
            reporter.close()
        } catch  where !hasBegun && isClosed.withLock({ $0 }) {
            // Another thread closed the database while this thread waited.
        } catch {
            if !gate.isClosed { for companion in companions { companion.databaseStaysOpen() } }
            throw error
        }
    }

    /// The companion of a type, which is one that each database has.
    package func companion<Companion: DatabaseCompanion>(_ type: Companion.Type) -> Companion {
        for companion in companions {
            if let companion = companion as? Companion { return companion }
        }
        preconditionFailure("\(path) was opened without its \(type)")
    }

    /// Checks that the database is open, for functions that could otherwise return without an access.
    ///
    /// - throws: `SQLITE_MISUSE` once the database is closed. The database may still be closed right after this check.
    package func checkOpen() throws {
        try checkProcess()
        if isClosed.withLock({ $0 }) { throw DatabaseError.closed(path) }
    }

    /// Why this participant does not coordinate with others beyond SQLite's own locks; nil when it does.
    ///
    /// Without coordination, no data is lost, but turns are not fair. See `docs/PROTOCOL.md`, rules L1 to L5. Exclude the files
    /// `NAME-coord*` from scripts that clean up, and from synchronization (iCloud, Dropbox).
    public var uncoordinatedReason: String? { seat.unusable?.description }
}

// MARK: - Fork

extension SharedDatabase {
    var isInOwnProcess: Bool { rt_fork_generation() == forkGeneration }

    /// Rule W4.
    package func checkProcess() throws {
        guard isInOwnProcess else { throw forkedError }
    }

    var forkedError: DatabaseError { .openedBeforeFork(path) }

    /// Runs `body` on a connection whose every statement fails, for functions that cannot throw an error of their own. The
    /// connection is to an empty database, so that calls other than statements do no harm.
    func failingAccess<T>(_ error: any Error, _ body: (Database) throws -> T) rethrows -> T {
        do {
            guard let queue = try? DatabaseQueue() else { preconditionFailure("\(error)") }
            return try queue.inDatabase { db in
                let interruption = InterruptionHold()
                interruption.take(db)
                defer { interruption.forget() }
                db.interruptNow()
                return try body(db)
            }
        } catch is DatabaseError {
            throw error
        }
    }
}
