import Dispatch
import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

extension WriterConnection {
    /// The connection and its phase. All uses of the connection run on its queue.
    struct Link {
        enum Phase {
            case open
            /// The connection is closed or about to be, and is not opened again. nil: it was closed already.
            case parked(ConnectionClosing?)
            /// The connection is closed, and the next access opens it.
            case resting
            /// The user has closed the database.
            case closed
        }

        /// The queue of the connection. If there is none, it is that of the last connection, where accesses throw
        /// `SQLITE_MISUSE`.
        var queue: DatabaseQueue
        var phase = Phase.open
    }

    /// The queue for code inside an access. Code that begins an access calls `openedQueue()`.
    var queue: DatabaseQueue { link.withLock { $0.queue } }

    /// Returns the queue for a new access, and opens the connection if it was parked.
    ///
    /// - throws: `DatabaseError.suspended` while the database is parked; what opening throws, ``EncryptionError`` included, after
    ///   which the next access tries again; ``Refusal/turnedBack`` when opening was given up because the gate was closed.
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
            // SQLite would create a new database if the file is missing.
            guard try System.status(ofFileAt: path).map({ $0.st_size > 0 }) == true else {
                throw DatabaseError.gone(path)
            }
            // A read-only participant has no checkpointer, and does not write.
            if checkpointer != nil { try ForbiddenFile.refuse(databasePath: path) }
            return try namingObstacles {
                let queue = try openConnection()
                try queue.inDatabase(adopt)
                return queue
            }
        } catch let error as DatabaseError {
            // This is decided here, because another access may retry next.
            let isForGate = error.resultCode == .SQLITE_BUSY && gate.hasGivenUp.load(ordering: .acquiring)
            throw isForGate ? Refusal.turnedBack : error.naming(path) as any Error
        } catch let error as EncryptionError {
            throw error
        } catch let error as SharedDatabaseError {
            throw error
        } catch {
            throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "\(path): cannot be opened again: \(error)")
        }
    }

    /// Schedules `body` on the connection, if the connection is open or can be opened again.
    ///
    /// - Parameters:
    ///   - backoff: how long to wait before the next attempt if this one fails.
    ///   - failed: called with the error of each attempt that fails and is retried.
    func soon(
        backoff: Backoff = .reopening,
        failed: @escaping @Sendable (any Error) -> Void = { _ in },
        _ body: @escaping @Sendable (Database) -> Void
    ) {
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
                // The caller of `soon` asks again after the suspension.
                if (error as? DatabaseError)?.isSuspension == true { return }
                failed(error)
                backoff.retry { [weak self] in self?.soon(backoff: $0, failed: failed, body) }
            }
        }
    }

    func interrupt() {
        interruptible.withLock { $0?.interrupt() }
        borrower.withLock { $0?.interrupt() }
    }

    /// Runs `body` while no access runs: on the queue, or immediately if there is no connection. `body` uses state that is confined
    /// to the queue, and needs no connection. It must not run on the queue of a closed connection, because the next access opens
    /// another connection and would run beside it.
    func betweenAccesses(_ body: @escaping @Sendable () -> Void) {
        link.withLock { link in
            switch link.phase {
            case .open: link.queue.asyncWriteWithoutTransaction { _ in body() }
            // A new access waits for the lock, because it must open the connection.
            case .resting: body()
            // Another call comes when the connection is open again, or none is needed.
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
}

// MARK: - Parking

extension WriterConnection: Parkable {
    var use: HeldConnection.Use { .writing }

    /// Turns away new accesses, and closes the connection when no access runs on it. An open transaction is rolled back.
    func park() -> Bool {
        let isParked: Void? = link.withLockIfAvailable { link in
            switch link.phase {
            case .open:
                let closing = ConnectionClosing(link.queue, .writing) { db in
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

    /// - returns: the connection if it stays open, and why.
    func stepParking() -> [HeldConnection] {
        closing?.step()
        return [closing?.held].compactMap(\.self)
    }

    /// Lets the next access open the connection, or use the connection that could not be closed. Do not call it during parking.
    func unpark() {
        let (closing, queue) = link.withLock { link in
            if case .parked(let closing) = link.phase { return (closing, link.queue) }
            return (nil, link.queue)
        }
        // The lock is not held, because an observer that is notified of a rollback may use it.
        let phase: Link.Phase
        if closing?.cancel() == true {
            phase = .open
        } else if let closing, !closing.step() {
            queue.asyncWriteWithoutTransaction(keepConnection)
            phase = .open
        } else {
            phase = .resting
        }
        link.withLock { link in
            if case .parked = link.phase { link.phase = phase }
        }
    }

    /// - returns: the queue of the connection that must be closed; nil when there is none.
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
    /// Usually, the app has deleted or reset its database while another part of it was suspended.
    fileprivate static func gone(_ path: String) -> DatabaseError {
        DatabaseError(
            message: """
                the file was removed while the database was suspended: close the database, and open it again, which creates a new file
                """
        )
    }

    static func leftWAL(_ path: String) -> DatabaseError {
        DatabaseError(
            message: """
                another program has switched the database out of WAL mode: close the database, and open it again, which switches it back
                """
        )
    }
}

// MARK: - Suspension gate

extension WriterConnection: GateFollower {
    package func gateWillAbort() { rollBackOpenTransaction() }

    package func gateInterruptsWrites() {
        interrupt()
        // The writer may be waiting for a step of the checkpointer within its turn.
        checkpointer?.link.interrupt()
    }
}
