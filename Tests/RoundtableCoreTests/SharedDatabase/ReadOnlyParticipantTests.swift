import Dispatch
import GRDB
import Roundtable
import RoundtableUnitSupport
import Testing

/// The settings of GRDB's configuration for writes, on a participant that only reads.
@Suite(.timeLimit(.minutes(1))) struct ReadOnlyParticipantTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func open(_ change: (inout Configuration) -> Void) throws -> SharedDatabase {
        let url = folder.file("players.sqlite")
        try (SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app") as SharedDatabase).close()
        var options = SharedDatabase.Options()
        change(&options.configuration)
        let answer: SharedDatabase.Availability = try SharedDatabase.openReadOnly(
            at: url,
            schema: SharedSchema(migrator()),
            as: "reader",
            options: options
        )
        guard case .available(let db) = answer else { throw CancellationError() }
        return db
    }

    /// A transaction that is left open stays, as in GRDB, and is no fault of the program.
    @Test func aTransactionThatIsLeftOpen() throws {
        let db = try open { $0.allowsUnsafeTransactions = true }
        try db.writeWithoutTransaction { try $0.beginTransaction() }
        try db.writeWithoutTransaction { db in
            #expect(db.isInsideTransaction)
            #expect(throws: DatabaseError.self) { try db.execute(sql: "DELETE FROM player") }
            try db.rollback()
        }
        #expect(try db.read(Player.fetchCount) == 0)
        try db.close()
    }

    /// Its accesses run where GRDB's reads do, those that would write included: `writeTargetQueue` is not for read-only connections.
    @Test func itsQueue() throws {
        let key = DispatchSpecificKey<String>()
        let (reading, writing) = (DispatchQueue(label: "reading"), DispatchQueue(label: "writing"))
        reading.setSpecific(key: key, value: "reading")
        writing.setSpecific(key: key, value: "writing")
        let db = try open {
            $0.targetQueue = reading
            $0.writeTargetQueue = writing
        }
        #expect(try db.read { _ in DispatchQueue.getSpecific(key: key) } == "reading")
        #expect(db.writeWithoutTransaction { _ in DispatchQueue.getSpecific(key: key) } == "reading")
        try db.close()
    }
}
