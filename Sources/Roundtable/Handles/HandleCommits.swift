import GRDB
import RoundtableKernel

/// Announces what a raw handle's connection commits in its turns (rules U4–U6). Confined to who has the turn.
final class HandleCommits {
    /// What was known when the turn began.
    private struct Beginning {
        let counter: UInt32
        let dataVersion: Int64
        let schemaVersion: Int64?
        /// Those that the record names; nil: any.
        let written: [String]?
    }

    private let raw: RawConnection
    private let seat: Seat
    private let tables: HandleTables
    private var publisher: ChangePublisher?
    private var beginning: Beginning?
    /// What could not be told before the turn is not asked again within it.
    private var unknown: (tables: Set<String>, schemaVersion: Int64)?

    /// So many commits of one turn are told one by one.
    private static let mostCommits = 32

    init(_ raw: RawConnection, seat: Seat, tables: HandleTables) {
        self.raw = raw
        self.seat = seat
        self.tables = tables
    }

    /// Finds out what the likely commits write. Before the turn, outside of a transaction.
    func lookUp(_ named: Set<String>?) {
        unknown = nil
        guard let named, tables.lastWritten(through: named) == nil, let version = raw.schemaVersion else { return }
        if tables.written(through: named, schemaVersion: version) == nil { unknown = (named, version) }
    }

    /// Rule U4. With the turn, outside of a transaction.
    func begin(tables: Set<String>?) {
        beginning = nil
        guard let participant = seat.participant, participant.isSeated else {
            publisher = nil
            return
        }
        if publisher?.participant !== participant { publisher = ChangePublisher(participant) }
        // Before the counter: what others commit between the two, shows.
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

    /// Rule U5. Outside of a transaction.
    func end(tables named: Set<String>?) {
        guard let beginning, let publisher else { return }
        self.beginning = nil
        guard let counter = raw.withWalIndex({ $0.commitCounter?.value }) ?? nil else {
            return publisher.settle(.unsure)
        }
        let count = Int(counter &- beginning.counter)
        if count == 0 { return publisher.settle(.void) }
        let schemaVersion = raw.schemaVersion
        // After the counter and the schema: what others commit in between, shows.
        guard count <= Self.mostCommits, raw.dataVersion == beginning.dataVersion else {
            return publisher.settle(.unsure)
        }
        // Where the turn has changed the schema, the triggers of its commits may be gone.
        let isSameSchema = schemaVersion != nil && schemaVersion == beginning.schemaVersion
        let written = isSameSchema ? schemaVersion.flatMap { self.written(through: named ?? [], $0) } : nil
        if count == 1, written == beginning.written { return publisher.settle(.committed) }
        let isTold = raw.whileNobodyWrites { _ in
            publisher.settle(commits: count, after: beginning.counter, tables: written, now: MonotonicClock.now)
        }
        if isTold != true { publisher.settle(.unsure) }
    }
}
