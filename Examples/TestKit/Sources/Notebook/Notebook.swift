import Foundation
import GRDB

/// Lists of numbers in a database, each as JSON in one row. It uses GRDB, and knows nothing of Roundtable or of its test kit.
public struct Notebook: Sendable {
    private let queue: DatabaseQueue

    public init(at url: URL) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        queue = try DatabaseQueue(path: url.path, configuration: configuration)
        try queue.write {
            try $0.execute(sql: "CREATE TABLE IF NOT EXISTS list (id INTEGER PRIMARY KEY, numbers TEXT NOT NULL)")
        }
    }

    public func numbers(in list: Int) throws -> [Int] { try queue.read { try Self.fetch(list, $0) } }

    /// Right: other processes cannot write between the read and the write.
    public func append(_ number: Int, to list: Int) throws {
        try queue.write { db in try Self.store(Self.fetch(list, db) + [number], list, db) }
    }

    /// Wrong: another process may write in between, and its number is lost.
    public func appendNaively(_ number: Int, to list: Int) throws {
        let numbers = try numbers(in: list)
        try queue.write { db in try Self.store(numbers + [number], list, db) }
    }

    private static func fetch(_ list: Int, _ db: Database) throws -> [Int] {
        let text = try String.fetchOne(db, sql: "SELECT numbers FROM list WHERE id = ?", arguments: [list]) ?? "[]"
        return try JSONDecoder().decode([Int].self, from: Data(text.utf8))
    }

    private static func store(_ numbers: [Int], _ list: Int, _ db: Database) throws {
        let text = String(decoding: try JSONEncoder().encode(numbers), as: UTF8.self)
        try db.execute(sql: "INSERT OR REPLACE INTO list VALUES (?, ?)", arguments: [list, text])
    }
}
