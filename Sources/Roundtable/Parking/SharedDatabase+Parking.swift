import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// Whether a database has its connections.
final class Parking: Sendable {
    fileprivate let isWanted = Atomic(false)
    /// Held by whoever closes or opens connections.
    private let transition = NSLock()

    /// Whether somebody closes or opens connections now.
    var isParking: Bool {
        guard transition.try() else { return true }
        transition.unlock()
        return false
    }

    /// - returns: nil when somebody else has been at it until the deadline.
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

    /// Gives up all SQLite connections, with all their locks and descriptors, until `unpark()`. Nothing is checkpointed.
    ///
    /// New reads that do not block a thread wait; what blocks one fails (`DatabaseError.suspended`). Reads that run may end until shortly
    /// before the deadline, then they are interrupted. Snapshots lose their moment. Observations and consumers of changes are told
    /// nothing, no error either, and go on after `unpark()`, with one change that stands for all that they have missed. The writer connection closes
    /// when nothing runs on it: keeping writes away is the caller's part.
    ///
    /// What belongs to a SQLite connection alone goes with it: temporary tables, attached databases, functions, collations and settings that
    /// ``Options/configuration`` does not make, and transaction observers that were added by `Database.add(transactionObserver:extent:)`
    /// inside of an access.
    ///
    /// - Parameters:
    ///   - deadline: when to return at the latest, or soon after.
    ///   - isCalledOff: asked now and then: whether to leave it at what is closed already, because `unpark()` will be next.
    /// - returns: what keeps connections open at the deadline; those are closed as soon as they can be, unless `unpark()` comes first.
    ///   It may be called again.
    func park(until deadline: Nanoseconds, isCalledOff: () -> Bool = { false }) -> [HeldConnection] {
        guard isInOwnProcess else { return [] }
        parking.isWanted.store(true, ordering: .sequentiallyConsistent)
        return parking.exclusively(until: deadline) {
            // Taken back meanwhile.
            guard parking.isWanted.load(ordering: .sequentiallyConsistent) else { return [] }
            // Before anything is interrupted, so that observations do not tell of it.
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
            // Somebody may be starting an observation on it.
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
                // An interruption does not outlast the statement that it ends.
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

    /// The connection is being opened: it closes after that, unless `unpark()` comes first.
    private func parkWriterLater() {
        Thread.detachNewThread { [parking, writer] in
            while !parking.exclusively({ !parking.isWanted.load(ordering: .sequentiallyConsistent) || writer.park() }) {
                MonotonicClock.sleep(Self.interruption.interval)
            }
        }
    }

    /// Takes `park(until:)` back. Connections are opened when they are needed, and at once where somebody observes.
    func unpark() {
        guard isInOwnProcess else { return }
        parking.isWanted.store(false, ordering: .sequentiallyConsistent)
        let isObserved = parking.exclusively {
            // Somebody wants it parked again, and will do so.
            if parking.isWanted.load(ordering: .sequentiallyConsistent) { return false }
            writer.unpark()
            writer.checkpointer?.link.unpark()
            let isObserved = observatory.unpark()
            longReads.unpark()
            readers.unpark()
            return isObserved
        }
        if isObserved { observatory.goOn() }
    }

    /// Runs `body`, and if that finds the database parked, once more when it is not.
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
