import CFootprint
import Foundation
import GRDB
import Roundtable
import Synchronization

/// A process that shares the database at a path, and idles. It has read and, if it can, written once before it says that it is ready.
enum Participant: String {
    case readWrite = "read-write"
    case readOnly = "read-only"
    /// Reads and writes, and has a value observation and `changes(in:)` running.
    case observing

    struct Unavailable: Error {
        let reason: String
    }

    func stay(_ path: String) throws {
        let url = URL(fileURLWithPath: path)
        switch self {
        case .readWrite:
            let database = try Self.open(url)
            footprint_stay()
            try database.close()
        case .readOnly:
            let answer = try SharedDatabase.openReadOnly(at: url, schema: Self.schema, as: rawValue)
            guard case .available(let database) = answer else { throw Unavailable(reason: "\(answer)") }
            _ = try database.read(Self.count)
            footprint_stay()
            try database.close()
        case .observing:
            let database = try Self.open(url)
            let firstValue = DispatchSemaphore(value: 0)
            let isFirst = Atomic(true)
            let observation = ValueObservation.tracking(Self.count).start(
                in: database,
                scheduling: .async(onQueue: DispatchQueue(label: "observer"))
            ) { error in
                fatalError("an observation ended: \(error)")
            } onChange: { _ in
                if isFirst.exchange(false, ordering: .relaxed) { firstValue.signal() }
            }
            let changes = database.changes(in: Table("entry"))
            let task = Task.detached { for try await _ in changes {} }
            firstValue.wait()
            footprint_stay()
            task.cancel()
            observation.cancel()
            try database.close()
        }
    }

    private static var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("create entry") { db in
            try db.create(table: "entry") { table in
                table.column("id", .integer).primaryKey()
                table.column("text", .text).notNull()
            }
        }
        return SharedSchema(migrator)
    }

    private static func open(_ url: URL) throws -> SharedDatabase {
        let database = try SharedDatabase.open(at: url, schema: schema, as: "read-write")
        try database.write { try $0.execute(sql: "INSERT INTO entry (text) VALUES ('a row of some length')") }
        _ = try database.read(count)
        return database
    }

    @Sendable private static func count(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM entry") ?? 0
    }
}
