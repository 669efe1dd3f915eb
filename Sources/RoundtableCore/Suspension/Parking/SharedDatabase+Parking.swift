import GRDB
import RoundtableKernel

extension SharedDatabase {
    /// What has connections, in the order in which it is parked. It is unparked in the reverse order.
    ///
    /// The writer connection is the last one to be parked, because an observation may be being started on it. What the others give up closes
    /// after them. The observatory is unparked before the readers, so that what was missed is delivered before a waiting read begins.
    private var parkables: [any Parkable] {
        let checkpoints: [any Parkable] = writer.checkpointer.map { [$0.link] } ?? []
        return [readers, longReads] + checkpoints + [observatory, closings, writer]
    }

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
        return parking.park(parkables, until: deadline, isCalledOff: isCalledOff)
    }

    /// Takes `park(until:)` back. Connections are opened on demand, and immediately if there are observations.
    func unpark() {
        guard isInOwnProcess else { return }
        parking.unpark(parkables)
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
