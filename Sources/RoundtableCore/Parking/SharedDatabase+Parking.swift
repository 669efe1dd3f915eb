import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// The parking state of a database: whether its connections are requested to be closed.
final class Parking: Sendable {
    fileprivate let isWanted = Atomic(false)
    /// Held while connections are closed or opened.
    private let transition = NSLock()

    /// Whether a thread closes or opens connections now.
    var isParking: Bool {
        guard transition.try() else { return true }
        transition.unlock()
        return false
    }

    /// - returns: nil when another thread has held the lock until the deadline.
    fileprivate func exclusively<T>(until deadline: Nanoseconds, _ body: () -> T) -> T? {
        guard transition.lock(until: deadline) else { return nil }
        defer { transition.unlock() }
        return body()
    }

    func exclusively<T>(_ body: () throws -> T) rethrows -> T { try transition.withLock { try body() } }
}

extension SharedDatabase {
    /// How long before the deadline statements are interrupted, and how often.
    private static let interruption: (lead: Nanoseconds, interval: Nanoseconds) = (100_000_000, 500_000)

    /// Closes all SQLite connections, and with them all their locks and descriptors, until `unpark()`. Nothing is checkpointed.
    ///
    /// New reads that do not block a thread wait, and blocking reads fail (`DatabaseError.suspended`). Running reads may finish
    /// until shortly before the deadline, then they are interrupted. Snapshots lose their moment. Observations and consumers of
    /// changes receive nothing, not even an error. They continue after `unpark()`, with one change that stands for all that they
    /// have missed. The writer connection closes when no access runs on it. The caller must keep writes away.
    ///
    /// What belongs to a SQLite connection alone is lost: temporary tables, attached databases, functions, collations and
    /// settings that ``Options/configuration`` does not make, and transaction observers that were added by
    /// `Database.add(transactionObserver:extent:)` inside an access.
    ///
    /// - Parameters:
    ///   - deadline: when to return at the latest, or soon after.
    ///   - isCalledOff: polled during parking. If it returns true, parking stops with what is closed already, because `unpark()`
    ///     follows.
    /// - returns: the connections that are open at the deadline, and why. They are closed as soon as possible, unless `unpark()`
    ///   comes first. `park` may be called again.
    func park(until deadline: Nanoseconds, isCalledOff: () -> Bool = { false }) -> [HeldConnection] {
        guard isInOwnProcess else { return [] }
        parking.isWanted.store(true, ordering: .sequentiallyConsistent)
        return parking.exclusively(until: deadline) {
            // `unpark()` was called meanwhile.
            guard parking.isWanted.load(ordering: .sequentiallyConsistent) else { return [] }
            // Observations are parked before anything is interrupted, so that they do not report the interruption.
            observatory.park()
            readers.park()
            longReads.park()
            return closeParked(until: deadline) {
                isCalledOff() || !parking.isWanted.load(ordering: .sequentiallyConsistent)
            }
        } ?? [HeldConnection(use: .reading)]
    }

    private func closeParked(until deadline: Nanoseconds, isCalledOff: () -> Bool) -> [HeldConnection] {
        let time = deadline.subtractingSaturating(MonotonicClock.now)
        let lead = min(Self.interruption.lead, time / 2)
        var isWriterParked = false
        while true {
            // An observation may be being started on the writer connection.
            if !isWriterParked, observatory.isNobodyStarting || MonotonicClock.now >= deadline {
                isWriterParked = writer.park()
            }
            let writing = isWriterParked ? writer.stepParking() : [HeldConnection(use: .writing)]
            let checkpointing = writer.checkpointer?.link.park(until: MonotonicClock.now) == false
            let held =
                readers.stepParking() + longReads.stepParking() + observatory.stepParking() + writing
                + (checkpointing ? [HeldConnection(use: .checkpoint)] : [])
            if held.isEmpty || isCalledOff() { return held }
            let now = MonotonicClock.now
            if deadline.subtractingSaturating(now) <= lead {
                // An interruption only affects the statement that is running.
                readers.interruptParking()
                longReads.interruptParking()
                observatory.interruptParking()
                writer.checkpointer?.link.interrupt()
            }
            if now >= deadline {
                if !isWriterParked { parkWriterLater() }
                return held
            }
            MonotonicClock.sleep(min(Self.interruption.interval, deadline - now))
        }
    }

    /// Parks the writer connection when it has been opened, unless `unpark()` comes first.
    private func parkWriterLater() {
        Thread.detachNewThread { [parking, writer] in
            while !parking.exclusively({ !parking.isWanted.load(ordering: .sequentiallyConsistent) || writer.park() }) {
                MonotonicClock.sleep(Self.interruption.interval)
            }
        }
    }

    /// Takes `park(until:)` back. Connections are opened on demand, and at once if there are observations.
    func unpark() {
        guard isInOwnProcess else { return }
        parking.isWanted.store(false, ordering: .sequentiallyConsistent)
        let isObserved = parking.exclusively {
            // Another thread wants the database parked again, and will park it.
            if parking.isWanted.load(ordering: .sequentiallyConsistent) { return false }
            writer.unpark()
            writer.checkpointer?.link.unpark()
            let isObserved = observatory.unpark()
            longReads.unpark()
            readers.unpark()
            return isObserved
        }
        if isObserved { observatory.restartObservations() }
    }

    /// Runs `body`. If the database is parked, it waits until the database is unparked, and retries.
    func afterParking<T: Sendable>(_ body: @Sendable () async throws -> T) async throws -> T {
        while true {
            do {
                return try await body()
            } catch let error as DatabaseError where error.isSuspension {
                try await readers.waitWhileParked()
            }
        }
    }
}
