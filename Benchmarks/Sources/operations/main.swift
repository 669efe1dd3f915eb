import CBenchmarkShims
import Foundation
import GRDB
import Roundtable

// operations SIDE FOLDER COUNT: each of a few operations COUNT times, one after the other, for a tool that counts instructions. It dumps its counts
// before each call of `bench_mark`. Prints the names of what was between two marks.

/// A database of one side. What the sides' own types do is in closures; everything else is GRDB's protocols, which both have.
struct Contestant {
    let database: any DatabaseWriter
    let write: @Sendable () throws -> Void
    let asyncWrite: @Sendable () async throws -> Void
    let read: @Sendable () throws -> Int
}

enum Side: String {
    case roundtable
    case grdb

    func open(_ path: String, as name: String) throws -> Contestant {
        switch self {
        case .roundtable:
            let database = try SharedDatabase.open(
                at: URL(fileURLWithPath: path),
                schema: SharedSchema(Self.migrator),
                as: name
            )
            return Contestant(
                database: database,
                write: { try database.write(increment) },
                asyncWrite: { try await database.write(increment) },
                read: { try database.read(value) }
            )
        case .grdb:
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            let pool = try DatabasePool(path: path, configuration: configuration)
            try Self.migrator.migrate(pool)
            return Contestant(
                database: pool,
                write: { try pool.write(increment) },
                asyncWrite: { try await pool.write(increment) },
                read: { try pool.read(value) }
            )
        }
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("create counter") { db in
            try db.execute(sql: "CREATE TABLE counter (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)")
            try db.execute(sql: "INSERT INTO counter VALUES (1, 0)")
        }
        return migrator
    }
}

@Sendable func increment(_ db: Database) throws {
    try db.cachedStatement(sql: "UPDATE counter SET value = value + 1 WHERE id = 1").execute()
}

@Sendable func value(_ db: Database) throws -> Int {
    try Int.fetchOne(db.cachedStatement(sql: "SELECT value FROM counter WHERE id = 1")) ?? -1
}

/// Blocks until a task has ended.
func wait(_ body: @escaping @Sendable () async throws -> Void) {
    let end = DispatchSemaphore(value: 0)
    Task.detached {
        do { try await body() } catch { fatalError("\(error)") }
        end.signal()
    }
    end.wait()
}

/// Commits `count` times with one database, and waits each time until an observation of another, or the same, has the value.
func observe(_ observed: Contestant, writing: Contestant, _ count: Int, _ mark: () -> Void) throws {
    let news = DispatchSemaphore(value: 0)
    let observation = ValueObservation.tracking(value).start(
        in: observed.database,
        scheduling: .async(onQueue: DispatchQueue(label: "observer"))
    ) { error in
        fatalError("an observation ended: \(error)")
    } onChange: { _ in
        news.signal()
    }
    news.wait()
    mark()
    for _ in 0..<count {
        try writing.write()
        news.wait()
    }
    observation.cancel()
}

func run(_ side: Side, in folder: String, count: Int) throws {
    let path = folder + "/\(side.rawValue).sqlite"
    var phases: [String] = []
    func mark(_ phase: String) {
        bench_mark()
        phases.append(phase)
    }
    let first = try side.open(path, as: "first")
    // Fills caches.
    for _ in 0..<20 {
        try first.write()
        _ = try first.read()
    }
    wait { for _ in 0..<20 { try await first.asyncWrite() } }

    mark("-")
    for _ in 0..<count { try first.write() }
    mark("write")
    for _ in 0..<count { try first.database.write(increment) }
    mark("write, any DatabaseWriter")
    for _ in 0..<count { _ = try first.read() }
    mark("read")
    wait { for _ in 0..<count { try await first.asyncWrite() } }
    mark("async write")
    try observe(first, writing: first, count) { mark("-") }
    mark("own value")
    for _ in 0..<count { try side.open(path, as: "other").database.close() }
    mark("open and close")
    if side == .roundtable {
        let other = try side.open(path, as: "other")
        try observe(first, writing: other, count) { mark("-") }
        mark("value of another")
        try other.database.close()
    }
    try first.database.close()
    print(phases.joined(separator: ";"))
}

let arguments = CommandLine.arguments
guard arguments.count == 4, let side = Side(rawValue: arguments[1]), let count = Int(arguments[3]) else {
    fatalError("operations roundtable|grdb FOLDER COUNT")
}
try run(side, in: arguments[2], count: count)
