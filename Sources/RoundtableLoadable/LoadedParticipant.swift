import CRoundtableShims
import RoundtableKernel

// Rule I5: Checkpoints are the host's: its SQLite makes them by itself, without W7. A host follows neither the marks of the schema (rules
// S) nor a fence (D6), and writes no history but what triggers write.

/// The participant of one database file that a host, a program without Roundtable, has opened (rules I).
///
/// SQLite requests and releases the write lock through it. It is used by one thread at a time, and not in a child of fork, which
/// `rtl_member` ensures.
final class LoadedParticipant {
    private let file: FileOfHost
    private let path: String
    private let author: String
    private let createsBlock: Bool

    /// The entry in the list of open files, which `fork` makes a list of files that the child must not open (rule W4).
    private let openFile: (identity: FileIdentity, generation: UInt32)?

    /// The files that the host has open, which are compared before each write.
    private let files: DatabaseFiles

    private var seat: Seat?
    private var ownerWord: OwnerWord?
    private var seatChanges: UInt64?
    private var publisher: ChangePublisher?
    private var lockedFiles: LockedFiles?
    /// Why the database has no turns, whatever lies beside it.
    private var refusal: String?
    private var lastLook: Nanoseconds?

    /// Whether the participant holds the turn.
    private var hasTurn = false
    /// Whether the host's busy handler has slept through the VFS. A host that never does waits on its own, or not at all.
    private var sleepsHere = false
    /// The commit counter when the write lock was acquired.
    private var counterBefore: UInt32?
    private var outcome = ChangeRecord.State.void

    /// The participant is of one connection.
    private static let connection: UInt = 1
    private static let settings = TurnSettings(priority: 1)
    private static let lookInterval: Nanoseconds = 250_000_000

    init(_ file: FileOfHost, path: String, author: String, createsBlock: Bool) {
        self.file = file
        self.path = System.resolvedPath(path)
        self.author = author
        self.createsBlock = createsBlock
        files = DatabaseFiles(databasePath: self.path)
        files.opened(Self.connection, [.database])
        // SQLite has opened the file by now.
        openFile = (try? System.identity(ofFileAt: path)).map { ($0, rt_open_file_add($0.device, $0.inode)) }
    }

    deinit {
        if let openFile { rt_open_file_remove(openFile.identity.device, openFile.identity.inode, openFile.generation) }
    }

    /// Whether others wait for the turns of this participant.
    var hasJoined: Bool { seat?.participant != nil }

    /// Whether a file is not in its place any more.
    ///
    /// - parameter now: whether a look of the last 10 ms is not valid.
    func hasLostFile(now: Bool) -> Bool { (now ? files.look() : files.lookIfDue(at: MonotonicClock.now)) != nil }

    /// - parameter isOpen: whether the host's SQLite has `-wal` and `-shm` open, or has left WAL mode or is about to close the files.
    func noteWAL(isOpen: Bool) {
        if isOpen { files.opened(Self.connection, DatabaseFiles.Part.allCases) } else { files.forgetCompanions() }
    }

    // MARK: The write lock

    // Rule I3: Before a transaction requests SQLite's WRITE lock, the participant takes the turn if it can be taken immediately (T1). If
    // not, the request fails with `SQLITE_BUSY`, and WRITE is not touched: a wait in the request would keep the read mark. A request
    // without a read mark is one of a recovery, and one with CKPT is one of a checkpoint: neither takes a turn. Databases with a rollback
    // journal have no WRITE lock, and no turns.

    /// Whether SQLite's lock is to be requested now (rule I3). False while the turn is another participant's.
    func mayRequestLock() -> Bool {
        let now = MonotonicClock.now
        guard let seat = seat(at: now) else { return true }
        let outcome = seat.takeTurn(at: now, until: now, callSite: nil, keepsPlace: true, isWriteLockFree: { false })
        followSeat()
        if outcome == .acquired { hasTurn = true }
        return outcome != .timedOut || mayPass(seat, at: now)
    }

    // Rule I3a: SQLite decides alone, without a turn, if the participant is uncoordinated; if the transaction has read before, because
    // SQLite does not wait then (`sqlite3_txn_state`; before 3.34, always); if the turn is that of a participant of this process that is
    // not the extension's; or if the turn word has not changed for the participant's patience, or for twice that if the host's busy handler
    // sleeps by I3b.

    /// Whether SQLite decides although the turn is another participant's (rule I3a).
    private func mayPass(_ seat: Seat, at now: Nanoseconds) -> Bool {
        if file.isUpgrading { return true }
        if isTurnOfProcess { return true }
        return seat.isPatienceOver(at: now, times: sleepsHere ? 2 : 1)
    }

    /// Whether a participant of this process that is not of this library holds the turn.
    private var isTurnOfProcess: Bool {
        guard let participant = seat?.participant, let owner = participant.block.turnOwner else { return false }
        return owner.pid == participant.identity.pid && !OwnParticipants.contains(owner)
    }

    func didRequestLock(isLocked: Bool) {
        guard let seat else { return }
        guard isLocked else {
            // A stranger has the lock. A host that sleeps here keeps the turn meanwhile, as every participant does.
            if hasTurn, !sleepsHere { releaseTurn(seat) }
            return
        }
        guard let participant = seat.participant, participant.isSeated, let counter = file.commitCounter,
            hasTurn || !isTurnOfProcess
        else { return }
        if publisher?.participant !== participant { publisher = ChangePublisher(participant) }
        counterBefore = counter
        publisher?.reserve(counter: counter, tables: nil, now: MonotonicClock.now)
    }

    // Rule I4: When WRITE is acquired, a record is reserved for the commit counter (R1), with tables unknown. Before WRITE is released, the
    // counter is read again. If it is the same, the record becomes *void*; if it is one more, *committed*; otherwise *unsure*. Then the
    // turn is given up as after any transaction (T4, T5). The counter is read through `xShmMap`, and no record is made if the two copies of
    // the wal-index header differ.

    /// Finds out whether the transaction was committed (rule I4). The write lock is held.
    func willUnlock() {
        guard let counterBefore else { return }
        switch file.commitCounter {
        case counterBefore: outcome = .void
        case counterBefore &+ 1: outcome = .committed
        default: outcome = .unsure
        }
    }

    func didUnlock() {
        if counterBefore != nil { publisher?.settle(outcome) }
        counterBefore = nil
        if let seat, hasTurn { releaseTurn(seat) }
    }

    private func releaseTurn(_ seat: Seat) {
        hasTurn = false
        seat.releaseTurn()
    }

    // MARK: Waiting

    // Rule I3b: SQLite's busy handler sleeps in the VFS (`xSleep`), when the connection has given up its read mark. The thread whose
    // request was the last to fail waits there for the turn, for as long as it was to sleep at most, and by T1b. With the turn, it waits
    // there for WRITE if a stranger has that. So the host's timeout bounds all waits.

    /// Waits for the turn, or within the turn for SQLite's lock, for at most `time` (rule I3b).
    ///
    /// - returns: the time that has passed; nil when there is no turn to wait for.
    func sleep(_ time: Nanoseconds) -> Nanoseconds? {
        guard let seat, seat.participant != nil else { return nil }
        sleepsHere = true
        let began = MonotonicClock.now
        let deadline = began.addingSaturating(time)
        if hasTurn {
            waitForLock(until: deadline)
        } else {
            let outcome = seat.takeTurn(at: began, until: deadline, callSite: nil, keepsPlace: true) {
                file.isWriteLockFree
            }
            followSeat()
            switch outcome {
            case .acquired: hasTurn = true
            case .uncoordinated: return nil
            case .timedOut, .cancelled: break
            }
        }
        return MonotonicClock.now &- began
    }

    private func waitForLock(until deadline: Nanoseconds) {
        var backoff = Backoff(.microseconds(50), upTo: .milliseconds(2))
        while !file.isWriteLockFree {
            let now = MonotonicClock.now
            guard now < deadline else { return }
            MonotonicClock.sleep(min(backoff.next(), deadline - now))
        }
    }

    // MARK: Joining and leaving

    // Rule I2: Each database file that the VFS wraps is a participant with its first write transaction, if a control block lies beside the
    // database, or if the URI parameter `roundtable` is on. It looks for a block at most every 250 ms. Without both, nothing is created.
    // Files that W5 refuses have no participant. Author is the URI parameter `roundtable_as`, else the name of the program. It leaves when
    // the file is closed.

    /// The seat, once a control block lies beside the database, or the host has asked for one (rule I2).
    private func seat(at now: Nanoseconds) -> Seat? {
        if let seat { return seat }
        guard refusal == nil else { return nil }
        if let lastLook, now &- lastLook < Self.lookInterval { return nil }
        lastLook = now
        let block = ControlBlock.path(forDatabaseAt: path)
        guard createsBlock || (try? System.statusOfLink(at: block))?.isRegularFile == true else { return nil }
        let access: FileAccess?
        do {
            access = try DatabasePlace(resolved: path).status.map(FileAccess.init)
        } catch {
            refusal = "\(error)"
            return nil
        }
        lockedFiles = LockedFiles(ofDatabaseAt: path)
        seat = Seat(databasePath: path, author: author, role: .readWrite, settings: Self.settings, access: access)
        files.follow { [weak seat] in seat?.show($0) }
        followSeat()
        return seat
    }

    /// Keeps the list of own participants true to the seat, which may have claimed another slot.
    private func followSeat() {
        guard let seat, seat.changes != seatChanges else { return }
        seatChanges = seat.changes
        if let ownerWord { OwnParticipants.remove(ownerWord) }
        ownerWord = seat.participant?.owner
        if let ownerWord { OwnParticipants.add(ownerWord) }
    }

    func leave() {
        seat?.leave()
        followSeat()
        seat = nil
        lockedFiles = nil
    }

    var description: String {
        if let refusal { return "no turns: \(path) \(refusal)" }
        if files.loss != nil { return "no writes: a file of \(path) was replaced, removed or moved: open it again" }
        guard let seat else {
            return createsBlock
                ? "no turns yet: \(author) joins with its first write in WAL mode"
                : "no turns yet: \(author) joins with its first write once \(ControlBlock.path(forDatabaseAt: path)) is there"
        }
        if let unusable = seat.unusable { return "no turns: \(unusable)" }
        return "takes turns as '\(author)'"
    }
}
