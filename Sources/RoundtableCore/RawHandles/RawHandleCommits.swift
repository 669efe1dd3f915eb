import GRDB
import RoundtableKernel

/// Announces what a raw handle's connection commits in its turns (rules U4–U6). Confined to the thread that has passed the turnstile.
final class RawHandleCommits {
    /// The state of the database when the turn began.
    private struct Beginning {
        let counter: UInt32
        let dataVersion: Int64
        let schemaVersion: Int64?
        /// The tables that the reserved record names; nil: any table.
        let written: [String]?
    }

    private let raw: RawConnection
    private let seat: Seat
    private let tables: RawHandleTables
    private var publisher: ChangePublisher?
    private var beginning: Beginning?
    /// The tables for which the lookup before the turn found no result. It is not repeated within the turn.
    private var unknown: (tables: Set<String>, schemaVersion: Int64)?

    /// The largest number of commits in one turn that are announced one by one.
    private static let mostCommits = 32

    init(_ raw: RawConnection, seat: Seat, tables: RawHandleTables) {
        self.raw = raw
        self.seat = seat
        self.tables = tables
    }

    /// Looks up which tables the commits of the turn are likely to write. Call it before the turn, outside a transaction.
    func lookUp(_ named: Set<String>?) {
        unknown = nil
        guard let named, tables.lastWritten(through: named) == nil, let version = raw.schemaVersion else { return }
        if tables.written(through: named, schemaVersion: version) == nil { unknown = (named, version) }
    }

    // Rule U4: When the turn is acquired, the connection's data version is read, then its schema version, and then, under SQLite's WRITE
    // lock, which is held for that alone (`xShmLock`), the commit counter. A record is reserved for the value that follows it (R1), with
    // the tables that are likely. If another connection has WRITE, no record is reserved.

    /// Reserves the record of the turn's first commit (rule U4). Call it with the turn, outside a transaction.
    func begin(tables: Set<String>?) {
        beginning = nil
        guard let participant = seat.participant, participant.isSeated else {
            publisher = nil
            return
        }
        if publisher?.participant !== participant { publisher = ChangePublisher(participant) }
        // The data version is read before the counter, so that it shows a commit of another connection between the two.
        guard let version = raw.dataVersion else { return }
        let schemaVersion = raw.schemaVersion
        raw.whileNobodyWrites { index in
            guard let counter = index.commitCounter?.value else { return }
            let written = tables.flatMap(self.tables.lastWritten(through:))
            publisher?.reserve(counter: counter, tables: written, now: MonotonicClock.now)
            beginning = Beginning(
                counter: counter,
                dataVersion: version,
                schemaVersion: schemaVersion,
                written: written
            )
        }
    }

    private func written(through named: Set<String>, _ schemaVersion: Int64) -> [String]? {
        if let unknown, unknown == (named, schemaVersion) { return nil }
        return tables.written(through: named, schemaVersion: schemaVersion)
    }

    // Rule U5: When the turn ends, the counter shows how many commits were made meanwhile. If none, the record becomes *void*; if one, and
    // no other connection has committed (the data version, read outside of a transaction, is as before), *committed*. If there were more,
    // or other tables were written, records for all are appended under WRITE, each reserved and then committed, and then the first becomes
    // void. If any other connection has committed, if that is not known, if another participant has reserved since, or for more than 32, it
    // becomes *unsure*.

    /// Announces the commits of the turn (rule U5). Call it outside a transaction.
    func end(tables named: Set<String>?) {
        guard let beginning, let publisher else { return }
        self.beginning = nil
        guard let counter = raw.withWalIndex({ $0.commitCounter?.value }) ?? nil else {
            return publisher.settle(.unsure)
        }
        let count = Int(counter &- beginning.counter)
        if count == 0 { return publisher.settle(.void) }
        let schemaVersion = raw.schemaVersion
        // The data version is read after the counter and the schema, so that it shows a commit of another connection in between.
        guard count <= Self.mostCommits, raw.dataVersion == beginning.dataVersion else {
            return publisher.settle(.unsure)
        }
        // If the turn has changed the schema, the triggers that its commits ran may be gone.
        let isSameSchema = schemaVersion != nil && schemaVersion == beginning.schemaVersion
        let written = isSameSchema ? schemaVersion.flatMap { self.written(through: named ?? [], $0) } : nil
        if count == 1, written == beginning.written { return publisher.settle(.committed) }
        let isTold = raw.whileNobodyWrites { _ in
            publisher.settle(commits: count, after: beginning.counter, tables: written, now: MonotonicClock.now)
        }
        if isTold != true { publisher.settle(.unsure) }
    }
}
