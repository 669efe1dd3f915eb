import Dispatch
import GRDB
import RoundtableKernel

extension WriterConnection {
    /// The connection, and whether there is one. What is done with it, is done on its queue.
    struct Link {
        enum Phase {
            case open
            /// Closed or about to be, and not opened again. nil: it was closed already.
            case parked(ConnectionClosing?)
            /// Closed, and opened by the next access.
            case resting
            /// By the user, for good.
            case closed
        }

        /// That of the last connection, when there is none: accesses to it throw `SQLITE_MISUSE`.
        var queue: DatabaseQueue
        var phase = Phase.open
    }

    /// For those who are inside of an access. Whoever begins one asks for `openedQueue()`.
    var queue: DatabaseQueue { link.withLock { $0.queue } }

    /// The queue to begin an access on. Opens the connection, where it was parked.
    ///
    /// - throws: that the database is suspended; what opening throws, ``EncryptionError`` included: the next access tries again; ``NotBegun`` when it was given
    ///   up because the gate was closed.
    func openedQueue() throws -> DatabaseQueue {
        try link.withLock { link in
            switch link.phase {
            case .open, .closed: break
            case .parked: throw DatabaseError.suspended(path)
            case .resting:
                let queue = try reopened()
                link.queue = queue
                link.phase = .open
                interruptible.withLock { $0 = queue }
            }
            return link.queue
        }
    }

    private func reopened() throws -> DatabaseQueue {
        do {
            busyHandler.forgetWaits()
            // SQLite would create another database where this one has gone.
            guard try System.status(ofFileAt: path).map({ $0.st_size > 0 }) == true else {
                throw DatabaseError.gone(path)
            }
            return try namingObstacles {
                let queue = try openConnection()
                try queue.inDatabase(adopt)
                return queue
            }
        } catch let error as DatabaseError {
            // Here, since another access may try it next.
            let isForGate = error.resultCode == .SQLITE_BUSY && gate.hasGivenUp.load(ordering: .acquiring)
            throw isForGate ? NotBegun(reason: error.naming(path), isForGate: true) : error.naming(path) as any Error
        } catch let error as EncryptionError {
            throw error
        } catch {
            throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "\(path): cannot be opened again: \(error)")
        }
    }

    /// Runs `body` on the connection soon, where it is open or may be opened again.
    func soon(_ body: @escaping @Sendable (Database) -> Void) {
        let isOpen = link.withLock { link in
            guard case .open = link.phase else { return false }
            link.queue.asyncWriteWithoutTransaction(body)
            return true
        }
        if isOpen { return }
        DispatchQueue.global().async {
            do {
                try self.openedQueue().asyncWriteWithoutTransaction(body)
            } catch {
                // Whoever wants it asks again later.
                if (error as? DatabaseError)?.isSuspension == true { return }
                DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in self?.soon(body) }
            }
        }
    }

    func interrupt() { interruptible.withLock { $0?.interrupt() } }

    /// Runs `body`, which uses what is confined to the queue and needs no connection, while no access runs: on the queue, or at once where there is
    /// no connection. The queue of a connection that was closed is no place for it: the next access opens another, and would run beside it.
    func betweenAccesses(_ body: @escaping @Sendable () -> Void) {
        link.withLock { link in
            switch link.phase {
            case .open: link.queue.asyncWriteWithoutTransaction { _ in body() }
            // Whoever wants to begin an access waits for the lock, to open the connection.
            case .resting: body()
            // There will be another call when it is open again, or none is needed.
            case .parked, .closed: break
            }
        }
    }

    // MARK: Observers

    func add(_ observer: some TransactionObserver, _ extent: Database.TransactionObservationExtent) {
        let added = observers.note(observer, extent)
        openQueue?.inDatabase(added.add)
    }

    func remove(_ observer: some TransactionObserver) {
        observers.remove(observer)
        openQueue?.remove(transactionObserver: observer)
    }

    private var openQueue: DatabaseQueue? {
        link.withLock { link in
            if case .open = link.phase { return link.queue }
            return nil
        }
    }

    // MARK: Parking

    /// From now on, accesses are turned away; the connection closes when nothing runs on it. An open transaction is rolled back.
    ///
    /// - returns: false when another thread is opening the connection, which may take long: call it again.
    func park() -> Bool {
        let isParked: Void? = link.withLockIfAvailable { link in
            switch link.phase {
            case .open:
                let closing = ConnectionClosing(link.queue) { db in
                    if db.isInsideTransaction { try? db.rollback() }
                    self.forgetConnection()
                }
                link.phase = .parked(closing)
            case .resting:
                link.phase = .parked(nil)
            case .parked, .closed: break
            }
        }
        return isParked != nil
    }

    private var closing: ConnectionClosing? {
        link.withLock { link in
            if case .parked(let closing) = link.phase { return closing }
            return nil
        }
    }

    /// - returns: what keeps the connection open.
    func stepParking() -> [HeldConnection] {
        switch closing?.step() {
        case nil, .closed: []
        case .isBusy: [HeldConnection(use: .writing)]
        case .isInUse: [HeldConnection(use: .writing, isByStatement: true)]
        }
    }

    /// The next access opens the connection, or goes on with the one that could not be closed. Not while it is being parked.
    func unpark() {
        let (closing, queue) = link.withLock { link in
            if case .parked(let closing) = link.phase { return (closing, link.queue) }
            return (nil, link.queue)
        }
        // Not under the lock: an observer that is told of a rollback may use it.
        let phase: Link.Phase
        if closing?.cancel() == true {
            phase = .open
        } else if let closing, closing.step() != .closed {
            queue.asyncWriteWithoutTransaction(keepConnection)
            phase = .open
        } else {
            phase = .resting
        }
        link.withLock { link in
            if case .parked = link.phase { link.phase = phase }
        }
    }

    /// - returns: the queue of a connection that is to be closed; nil when there is none.
    func settleForClosing() -> DatabaseQueue? {
        unpark()
        return link.withLock { link in
            if case .open = link.phase { return link.queue }
            link.phase = .closed
            return nil
        }
    }
}

extension DatabaseError {
    fileprivate static func gone(_ path: String) -> DatabaseError {
        DatabaseError(
            message: "the file was removed while the database was suspended: close it, and open it anew"
        )
    }

    static func leftWAL(_ path: String) -> DatabaseError {
        DatabaseError(
            message: """
                another program has taken it out of WAL mode while it was suspended: close it, and open it anew
                """
        )
    }
}
