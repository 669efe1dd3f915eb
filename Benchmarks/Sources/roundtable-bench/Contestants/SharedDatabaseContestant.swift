import Foundation
import GRDB
import Roundtable

/// Our side.
struct SharedDatabaseContestant: AsyncContestant {
    let database: SharedDatabase

    /// - parameter configure: adds what settings cannot say.
    init(
        _ path: String,
        _ settings: ContestantSettings,
        configure: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws {
        var options = SharedDatabase.Options()
        options.priority = settings.priority
        if let slice = settings.sliceMilliseconds { options.slice = .microseconds(slice * 1e3) }
        if let count = settings.readerCount { options.maximumReaderCount = count }
        if !settings.hasAutomaticCheckpoints {
            options.checkpointing = .manual
        }
        if settings.isDurable { options.durability = .machine }
        configure(&options)
        database = try SharedDatabase.open(
            at: URL(fileURLWithPath: path),
            schema: SharedSchema(Fixture.migrator),
            as: settings.name,
            options: options
        )
    }

    func insert(author: Int, inside: () -> Void) throws {
        try database.write { db in
            inside()
            try db.cachedStatement(sql: Statements.insert).execute(arguments: [author, Statements.text])
        }
    }

    func update(ids: [Int64], inside: () -> Void) throws {
        try database.write { db in
            inside()
            let statement = try db.cachedStatement(sql: Statements.update)
            for id in ids { try statement.execute(arguments: [id]) }
        }
    }

    func insertAsync(author: Int) async throws {
        try await database.write { db in
            try db.cachedStatement(sql: Statements.insert).execute(arguments: [author, Statements.text])
        }
    }

    func select(id: Int64) throws -> Int64? {
        try database.read { db in
            try Int64.fetchOne(db.cachedStatement(sql: Statements.select), arguments: [id])
        }
    }

    func read(id: Int64, inside: () -> Void) throws {
        try database.read { db in
            _ = try Int64.fetchOne(db.cachedStatement(sql: Statements.select), arguments: [id])
            inside()
        }
    }

    func readNothing() throws {
        try database.read { _ in }
    }

    func close() throws {
        try database.close()
    }
}
