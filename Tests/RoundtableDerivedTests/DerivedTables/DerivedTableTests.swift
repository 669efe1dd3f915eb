import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

import enum RoundtableTestSupport.DerivedTableWorld
import struct RoundtableTestSupport.RandomStatements
import struct RoundtableTestSupport.SeededGenerator
import enum RoundtableTestSupport.ViewWitness

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// What is derived follows from the base tables, after every transaction of any program (rules E2, E3).
@Suite struct DerivedTableTests {
    @Test(.long(), arguments: [1, 2]) func randomTransactions(_ round: Int) throws {
        let fixture = try DerivedTableFixture()
        let db = try fixture.open()
        let stranger = try fixture.stranger()
        var statements = RandomStatements(SeededGenerator())
        var problems: [String] = []
        var boxes = try db.read { try DerivedTableWorld.boxes.contents(in: $0) }
        var tags = try db.read { try DerivedTableWorld.tags.contents(in: $0) }
        for number in 1...(isLongRun ? 3000 : 300) where problems.isEmpty {
            let batch = (0...Int.random(in: 0...3, using: &statements.random)).map { _ in statements.next() }
            let isRolledBack = Int.random(in: 0..<8, using: &statements.random) == 0
            let isStrange = Bool.random(using: &statements.random)
            func run(_ db: Database) throws {
                for sql in batch {
                    do {
                        try db.execute(sql: sql)
                    } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                        // That one is not to be.
                    }
                }
            }
            if isStrange {
                try stranger.inDatabase { db in
                    try db.inTransaction(.immediate) {
                        try run(db)
                        return isRolledBack ? .rollback : .commit
                    }
                }
            } else {
                try db.writeWithoutTransaction { db in
                    try db.inTransaction(.immediate) {
                        try run(db)
                        return isRolledBack ? .rollback : .commit
                    }
                }
            }
            try db.read { db in
                problems = try DerivedTableWorld.discrepancies(db)
                problems += try ViewWitness.discrepancies(DerivedTableWorld.boxes, since: &boxes, db)
                problems += try ViewWitness.discrepancies(DerivedTableWorld.tags, since: &tags, db)
            }
            #expect(problems.isEmpty, "after transaction \(number): \(batch)")
        }
    }
}

/// A database with the tables and derived tables of `DerivedTableWorld`.
struct DerivedTableFixture {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("world.sqlite")
    }

    func open(
        _ derivedTables: [any DerivedTable] = DerivedTableWorld.all,
        revision: Int = 1,
        migrator: DatabaseMigrator = DerivedTableWorld.migrator(),
        as author: String = "app",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        let set = derivedTables.isEmpty ? nil : DerivedTableSet(revision: revision, derivedTables)
        let schema = SharedSchema(migrator, derivedTables: set)
        return try SharedDatabase.open(at: url, schema: schema, as: author, options: options)
    }

    /// An index of a field that is computed by a function of the program's.
    static func twice() -> SecondaryIndex {
        let twice = DatabaseFunction("twice", argumentCount: 1, pure: true) { values in
            Int.fromDatabaseValue(values[0]).map { $0 * 2 }
        }
        return SecondaryIndex(
            "twice",
            version: 1,
            of: "item",
            fields: [.init("double", "twice(size)")],
            functions: [twice]
        )
    }

    /// A program that knows nothing of Roundtable.
    func stranger() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        return try DatabaseQueue(path: url.path, configuration: configuration)
    }
}
