import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A participant's membership in the control block: it joins, acquires turns, and rejoins when the block becomes unusable
/// (rules L1–L5), also if it only reads. While it has no slot in a block, the participant works uncoordinated, and only SQLite's locks exclude
/// other writers.
package final class Seat: @unchecked Sendable {
    // @unchecked: the mutable state is confined to the caller's serial queue (the writer's). Other threads read `shared`
    // only, which a mutex guards.

    /// A claimed slot and, unless the participant is read-only, its part in the queue. It is a class so that each turn retains one
    /// object and not two.
    private final class Place {
        let participant: Participant
        let taker: TurnTaker?

        init(participant: Participant, taker: TurnTaker?) {
            self.participant = participant
            self.taker = taker
        }
    }

    /// The state that other threads may read.
    private struct Shared {
        var participant: Participant?
        var unusable: ControlBlock.Unusable?
        /// The last few owner words that this participant has used in change rings.
        var owners: [RecordOwner] = []
        /// The folder whose commands the participant applies, once for each applier. All values are of the same folder.
        var commandsFolders: [ObjectIdentifier: FileIdentity] = [:]
        /// The files that the participant has open, which a slot shows that is claimed from now on.
        var files: FileStamps?
        /// Whether a slot that is claimed from now on shows that the participant is suspended.
        var isSuspended = false
        /// Whether such a slot shows that the participant refuses its own writes.
        var refusesWrites = false
        /// Called after each attempt to join, with the reason if it failed.
        var onJoin: [@Sendable (ControlBlock.Unusable?) -> Void] = []
    }

    private struct RecordOwner {
        let owner: OwnerWord
        let block: FileIdentity
    }

    private let databasePath: String
    package let author: String
    private let role: ParticipantTraits.Role
    package let settings: TurnSettings
    private let access: FileAccess?
    private let stop: WaitCancellation?
    // Rule T14: A participant that takes the turns of another database, too, has a slot in that one's control block. It takes that turn before
    // its own, and releases it after that, so that nobody waits for the other turn while holding the one of this database. For a waiter there,
    // WRITE is taken (T12) if it is taken in one of the files that it knows to be written with these turns.
    /// The seat at the control block of another database, whose turn comes before the own one (rule T14). It is used as this seat is.
    private let outer: Seat?
    private let isNotWritten: (() -> Bool)?
    private let shared = Mutex(Shared())
    private let changeCount = Atomic<UInt64>(0)
    /// When `mayHaveMoved` last compared the block with the file in its place.
    private let lastComparison = Atomic<Nanoseconds>(0)

    // The following state is confined to the writer's queue.
    private var place: Place?
    private var hasLeft = false
    private var lastJoinAttempt: Nanoseconds = 0
    private var lastPlaceCheck: Nanoseconds = 0
    private var callSite: CallSite?
    /// Whether the participant has had a turn for setting up.
    package private(set) var hasSetUp = false

    private static let rejoinInterval: Nanoseconds = 100_000_000
    private static let placeCheckInterval: Nanoseconds = 250_000_000
    private static let clearInterval: Nanoseconds = 1_000_000_000

    /// Joins the control block if it is usable and has a free slot.
    ///
    /// - parameter access: the permissions of a new control block; nil leaves them to the umask.
    /// - parameter stop: ends waits for the turn as long as it is cancelled.
    /// - parameter outer: a seat of another database, whose turn is taken before the own one.
    /// - parameter isNotWritten: whether nobody is known to write the database, besides what callers of `takeTurn` see.
    package init(
        databasePath: String,
        author: String,
        role: ParticipantTraits.Role,
        settings: TurnSettings,
        access: FileAccess?,
        stop: WaitCancellation? = nil,
        outer: Seat? = nil,
        isNotWritten: (() -> Bool)? = nil
    ) {
        self.stop = stop
        self.outer = outer
        self.isNotWritten = isNotWritten
        self.databasePath = databasePath
        self.author = author
        self.role = role
        self.settings = settings
        self.access = access
        join(now: MonotonicClock.now)
    }

    /// Why the participant has no slot, in any of the control blocks; nil when it has one in each.
    package var unusable: ControlBlock.Unusable? {
        shared.withLock { $0.participant == nil ? $0.unusable : nil } ?? outer?.unusable
    }

    package var participant: Participant? { shared.withLock { $0.participant } }

    /// The other participants with whom this one takes turns, of all control blocks. Safe from any thread.
    package var others: [ParticipantRecord] {
        let own = participant
        let here = own?.block.participants().filter { $0.slot != own?.slot.index } ?? []
        return here + (outer?.others ?? [])
    }

    /// `participant`, for the writer's queue, where it needs no lock.
    package var writingParticipant: Participant? { place?.participant }

    /// Whether the control block says that the database may be fenced; nil without a place in one. For the writer's queue.
    package var mayBeFenced: Bool? { place?.participant.block.mayBeFenced }

    /// A count that rises whenever `participant` changes. Frequent callers compare it to avoid the lock. Safe from any thread.
    package var changes: UInt64 { changeCount.load(ordering: .acquiring) }

    // Rule N5: A participant distinguishes its own commits from others' by pid and incarnation, of its last 8 claims of a slot and the
    // block that they were in. Commits that it made without a slot are recognized by the counter.

    /// Whether this participant wrote the records of `owner` in the ring of `block` (rule N5).
    package func owns(_ owner: OwnerWord, in block: ControlBlock) -> Bool {
        shared.withLock { $0.owners.contains { $0.owner == owner && $0.block == block.file.identity } }
    }

    // MARK: On the writer's queue

    /// Waits for the turn (rule W2). If the participant still holds the turn (rule W3), it returns `acquired` immediately.
    ///
    /// - parameter now: the time of the request.
    /// - parameter keepsPlace: whether a wait that ends at the deadline is continued by the next call (rule T1b).
    /// - parameter priority: the priority of the ticket (rule T3), which may change at any moment; nil: as the settings say.
    package func takeTurn(
        at now: Nanoseconds,
        until deadline: Nanoseconds,
        callSite: CallSite?,
        settingUp: Bool = false,
        keepsPlace: Bool = false,
        cancellation: WaitCancellation? = nil,
        limit: (any WaitLimit)? = nil,
        isWriteLockFree: () -> Bool,
        priority: () -> UInt8? = { nil }
    ) -> TurnTaker.Outcome {
        var now = now
        if let outer {
            let outcome = outer.takeTurn(
                at: now,
                until: deadline,
                callSite: callSite,
                keepsPlace: keepsPlace,
                cancellation: cancellation,
                limit: limit,
                isWriteLockFree: isWriteLockFree,
                priority: priority
            )
            if outcome == .timedOut || outcome == .cancelled { return outcome }
            now = MonotonicClock.now
        }
        guard let place = seated(now: now), let taker = place.taker else { return .uncoordinated }
        if taker.hasTurn { return .acquired }
        record(callSite, place.participant)
        place.participant.setPriority { priority() ?? settings.priority }
        if settingUp {
            hasSetUp = true
            place.participant.setState(.settingUp)
        }
        let outcome = taker.acquire(
            at: now,
            until: deadline,
            settingUp: settingUp,
            keepsPlace: keepsPlace,
            cancellation: cancellation,
            limit: limit,
            isWriteLockFree: isWriteLockFree
        )
        if settingUp, outcome != .acquired { place.participant.setState(.present) }
        if outcome == .timedOut || outcome == .cancelled { outer?.releaseTurn(continuing: false) }
        return outcome
    }

    /// Releases the turn.
    ///
    /// - parameter continuing: whether another write may follow immediately. A pause that is known to come ends the slice (rule T5).
    package func releaseTurn(settingUp: Bool = false, continuing: Bool = true) {
        defer { outer?.releaseTurn(continuing: continuing) }
        guard let place, let taker = place.taker, taker.hasTurn else { return }
        if settingUp { place.participant.setState(.present) }
        // A lost slot is not written to (rule P6). The next turn detects the loss and rejoins.
        if place.participant.isSeated { taker.release(continuing: continuing) } else { unseat() }
    }

    /// Whether the turn, which the last `takeTurn` with `keepsPlace` saw with another participant, has not changed for some times this
    /// participant's patience. Called on the writer's queue.
    package func isPatienceOver(at now: Nanoseconds, times: UInt64) -> Bool {
        place?.taker?.isPatienceOver(at: now, times: times) ?? true
    }

    /// Whether the turn should be released, because the slice is over and other participants wait. Called within the turn.
    package func isTurnDue(at now: Nanoseconds) -> Bool {
        place?.taker?.isDue(at: now) == true || outer?.isTurnDue(at: now) == true
    }

    /// Shows other participants the line of code that runs within the turn. Called within the turn.
    package func show(_ callSite: CallSite?) {
        if let place { record(callSite, place.participant) }
        outer?.show(callSite)
    }

    /// Raises the priority of the ticket with which the participant waits (rule T3). Safe from any thread.
    package func raisePriority(to priority: UInt8) {
        shared.withLock { $0.participant?.raisePriority(to: priority) }
        outer?.raisePriority(to: priority)
    }

    /// Shows other participants whether this one is suspended. Safe from any thread.
    package func show(isSuspended: Bool) {
        shared.withLock {
            $0.isSuspended = isSuspended
            $0.participant?.setState(isSuspended ? .suspended : .present)
        }
        outer?.show(isSuspended: isSuspended)
    }

    /// Shows other participants whether this one refuses its own writes, because it does not know a migration. Safe from any thread.
    package func show(refusesWrites: Bool) {
        shared.withLock {
            $0.refusesWrites = refusesWrites
            $0.participant?.show(refusesWrites: refusesWrites)
        }
    }

    /// Answers a question of another participant in this block (rule P16). Safe from any thread.
    package func answer(_ question: UInt32, in block: ControlBlock) {
        shared.withLock { shared in
            guard let participant = shared.participant, participant.block.file.identity == block.file.identity else {
                return
            }
            participant.answer(question)
        }
    }

    /// Shows other participants the folder whose commands `applier` applies; nil: `applier` has stopped. Safe from any thread.
    package func show(commandsFolder folder: FileIdentity?, of applier: AnyObject) {
        shared.withLock {
            $0.commandsFolders[ObjectIdentifier(applier)] = folder
            $0.participant?.showCommandsFolder($0.commandsFolders.values.first)
        }
    }

    /// Shows other participants which files this one has open (rule P15). Safe from any thread.
    package func show(_ files: FileStamps) {
        shared.withLock {
            $0.files = files
            $0.participant?.show(files)
        }
    }

    /// Rejoins after a pause of any length if the slot was lost or the block is not in place any more, however short ago that was compared.
    /// Called on the writer's queue, or while nothing runs there.
    package func rejoin() {
        outer?.rejoin()
        if hasLeft { return }
        let now = MonotonicClock.now
        lastPlaceCheck = now &- Self.placeCheckInterval
        lastJoinAttempt = now &- Self.rejoinInterval
        _ = seated(now: now)
    }

    /// Joins the control block that is in place, if the participant has no slot there (rule L4). It creates, replaces and removes no file,
    /// and gives up the place that the participant has only for a new one. Called on the writer's queue, or while nothing runs there.
    package func followBlock() {
        outer?.followBlock()
        if hasLeft || place?.taker?.hasTurn == true { return }
        if let participant = place?.participant, participant.isSeated, participant.block.isInPlace { return }
        do {
            let block = try ControlBlock.open(forDatabaseAt: databasePath, writable: true)
            let participant = try Participant(in: block, author: author, traits: traits)
            if let place { leave(place) }
            take(participant, now: MonotonicClock.now)
        } catch {
            // With a place in a block that is gone, the next turn finds out what is wrong.
            shared.withLock { if $0.participant == nil { $0.unusable = error } }
        }
    }

    /// Whether `followBlock` may find a place for the participant: it has none, or its block is not in place any more. The file is
    /// inspected every 250 ms at most, and otherwise the answer is false. Safe from any thread.
    ///
    /// - parameter now: the time; it may come from a coarse clock.
    package func mayHaveMoved(at now: Nanoseconds) -> Bool {
        if outer?.mayHaveMoved(at: now) == true { return true }
        let last = lastComparison.load(ordering: .relaxed)
        guard now.subtractingSaturating(last) >= Self.placeCheckInterval,
            lastComparison.compareExchange(expected: last, desired: now, ordering: .relaxed).exchanged
        else { return false }
        guard let participant else { return true }
        return !participant.isSeated || !participant.block.isInPlace
    }

    package func leave() {
        defer { outer?.leave() }
        hasLeft = true
        if let place { leave(place) }
        place = nil
        shared.withLock { $0.participant = nil }
        changeCount.wrappingAdd(1, ordering: .acquiringAndReleasing)
    }

    private func leave(_ place: Place) {
        if place.participant.isSeated { place.taker?.leave() }
        // The lock of a slot that is lost is still held by this process.
        place.participant.leave()
    }

    // MARK: Joining

    private func seated(now: Nanoseconds) -> Place? {
        if let place {
            if place.taker?.hasTurn == true { return place }
            if place.participant.isSeated {
                if now &- lastPlaceCheck < Self.placeCheckInterval { return place }
                lastPlaceCheck = now
                if place.participant.block.isInPlace { return place }
                leave(place)
            }
            unseat()
        }
        guard now &- lastJoinAttempt >= Self.rejoinInterval else { return nil }
        join(now: now)
        return place
    }

    private func unseat() {
        callSite = nil
        // The slot is lost, but this process still holds its lock, which `leave()` releases.
        place?.participant.leave()
        place = nil
        shared.withLock {
            $0.participant = nil
            $0.unusable = .damaged
        }
        changeCount.wrappingAdd(1, ordering: .acquiringAndReleasing)
    }

    private func join(now: Nanoseconds) {
        if hasLeft { return }
        lastJoinAttempt = now
        lastPlaceCheck = now
        do {
            take(try joinedParticipant(), now: now)
        } catch {
            shared.withLock { $0.unusable = error }
            reportJoin(error)
        }
    }

    /// Uses a slot that was claimed.
    private func take(_ participant: Participant, now: Nanoseconds) {
        lastPlaceCheck = now
        callSite = nil
        let taker =
            role == .readOnly
            ? nil
            : TurnTaker(
                participant: participant,
                settings: settings,
                stop: stop,
                isNotWritten: isNotWritten
            )
        place = Place(participant: participant, taker: taker)
        // The slots of processes that ended without leaving stay visible until a participant frees them. One of many that join does.
        if participant.block.mayClearQueue(at: now, interval: Self.clearInterval) {
            participant.block.clearQueue(seenFrom: participant.identity)
        }
        shared.withLock {
            $0.participant = participant
            $0.unusable = nil
            if $0.isSuspended { participant.setState(.suspended) }
            participant.show(refusesWrites: $0.refusesWrites)
            participant.showCommandsFolder($0.commandsFolders.values.first)
            if let files = $0.files { participant.show(files) }
            $0.owners.append(RecordOwner(owner: participant.owner, block: participant.block.file.identity))
            if $0.owners.count > 8 { $0.owners.removeFirst() }
        }
        changeCount.wrappingAdd(1, ordering: .acquiringAndReleasing)
        reportJoin(nil)
    }

    private func reportJoin(_ unusable: ControlBlock.Unusable?) {
        for onJoin in shared.withLock({ $0.onJoin }) { onJoin(unusable ?? outer?.unusable) }
    }

    /// Calls a closure after each attempt to join, on the writer's queue: with nil when the participant has a slot, otherwise with the
    /// reason why it has none. It is called now for the last attempt. A slot that is lost and replaced immediately is reported as a slot.
    package func follow(_ onJoin: @escaping @Sendable (ControlBlock.Unusable?) -> Void) {
        shared.withLock { $0.onJoin.append(onJoin) }
        guard let outer else { return onJoin(unusable) }
        outer.follow { [weak self] _ in if let self { onJoin(unusable) } }
    }

    private var traits: ParticipantTraits { ParticipantTraits(role: role, priority: settings.priority) }

    private func joinedParticipant() throws(ControlBlock.Unusable) -> Participant {
        guard role == .readWrite else {
            let block = try ControlBlock.open(forDatabaseAt: databasePath, writable: true)
            return try Participant(in: block, author: author, traits: traits)
        }
        let block = try ControlBlock.openOrCreate(forDatabaseAt: databasePath, access: access)
        do {
            return try Participant(in: block, author: author, traits: traits)
        } catch .full where block.hasUnknownOwners(seenFrom: .current) {
            // Owners of unknown liveness are never proven dead, so their slots would be lost for ever. The live participants follow
            // to the new block (rule L4).
            do {
                try System.removeFile(at: block.path, ifStill: block.file.identity)
            } catch {
                throw .full
            }
            return try Participant(
                in: ControlBlock.openOrCreate(forDatabaseAt: databasePath, access: access),
                author: author,
                traits: traits
            )
        }
    }

    private func record(_ newCallSite: CallSite?, _ participant: Participant) {
        if callSite == newCallSite { return }
        callSite = newCallSite
        participant.slot.setCallSite(newCallSite ?? .unknown)
    }
}
