import GRDB
import GRDBSQLite

/// GRDB as its guide "Sharing a Database" says, for a process that can create and write the database. The guide's file
/// coordinator does not exist on Linux, and is left out everywhere, which spares GRDB its price.
struct PoolContestant: AsyncContestant {
    private struct IsSuperseded: Error {}

    private let pool: DatabasePool

    init(_ path: String, _ settings: ContestantSettings) throws {
        var configuration = Configuration.sharing
        if let count = settings.readerCount { configuration.maximumReaderCount = count }
        if !settings.hasAutomaticCheckpoints {
            configuration.prepareDatabase { try $0.execute(sql: Statements.noAutomaticCheckpoints) }
        }
        pool = try DatabasePool(path: path, configuration: configuration)
        // The pool sets NORMAL when it opens its writer.
        if settings.isDurable { try pool.writeWithoutTransaction { try $0.execute(sql: Statements.synchronous) } }
        let migrator = Fixture.migrator
        try migrator.migrate(pool)
        if try pool.read(migrator.hasBeenSuperseded) { throw IsSuperseded() }
    }

    func insert(author: Int, inside: () -> Void) throws {
        try pool.write { db in
            inside()
            try db.cachedStatement(sql: Statements.insert).execute(arguments: [author, Statements.text])
        }
    }

    func update(ids: [Int64], inside: () -> Void) throws {
        try pool.write { db in
            inside()
            let statement = try db.cachedStatement(sql: Statements.update)
            for id in ids { try statement.execute(arguments: [id]) }
        }
    }

    func insertAsync(author: Int) async throws {
        try await pool.write { db in
            try db.cachedStatement(sql: Statements.insert).execute(arguments: [author, Statements.text])
        }
    }

    func select(id: Int64) throws -> Int64? {
        try pool.read { db in
            try Int64.fetchOne(db.cachedStatement(sql: Statements.select), arguments: [id])
        }
    }

    func read(id: Int64, inside: () -> Void) throws {
        try pool.read { db in
            _ = try Int64.fetchOne(db.cachedStatement(sql: Statements.select), arguments: [id])
            inside()
        }
    }

    func readNothing() throws {
        try pool.read { _ in }
    }

    func close() throws {
        try pool.close()
    }
}

extension Configuration {
    /// What GRDB's guide says of a connection to a shared database.
    static var sharing: Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { db in
            if db.configuration.readonly == false {
                var flag: CInt = 1
                let code = withUnsafeMutablePointer(to: &flag) { flagP in
                    sqlite3_file_control(db.sqliteConnection, nil, SQLITE_FCNTL_PERSIST_WAL, flagP)
                }
                guard code == SQLITE_OK else {
                    throw DatabaseError(resultCode: ResultCode(rawValue: code))
                }
            }
        }
        return configuration
    }
}
