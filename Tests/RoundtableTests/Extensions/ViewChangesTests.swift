import Foundation
import GRDB
import RoundtableTestKit
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableExtensions

/// What a view tells of its changes, where it is not told by the log alone (rule E8).
@Suite struct ViewChangesTests {
    private static let view = MaterializedView(
        "list",
        version: 1,
        of: "item",
        where: "size >= 0",
        groupedBy: "box",
        sortedBy: [.ascending("size")]
    )

    private let fixture: ExtensionFixture
    private let db: SharedDatabase

    init() throws {
        fixture = try ExtensionFixture()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, box TEXT, size INTEGER, note TEXT)")
        }
        db = try fixture.open([Self.view], migrator: migrator)
    }

    private func insert(_ ids: ClosedRange<Int>, box: String = "a") throws {
        try db.write { db in
            let statement = try db.makeStatement(sql: "INSERT INTO item VALUES (?, ?, ?, 'n')")
            for id in ids { try statement.execute(arguments: [id, box, id % 5]) }
        }
    }

    private func snapshot() throws -> ViewSnapshot { try db.read { try Self.view.snapshot(in: $0) } }

    private func changes(since snapshot: inout ViewSnapshot) throws -> ViewChanges {
        let before = snapshot
        let (changes, after) = try db.read { [snapshot] db in
            var after = snapshot
            return (try Self.view.changes(since: &after, in: db), after)
        }
        snapshot = after
        #expect(changes.applied(to: before.groups, giving: after.groups) == after.groups)
        #expect(try self.snapshot().groups == after.groups)
        return changes
    }

    /// More changes than the log holds: any row may look different.
    @Test func theLogIsOverrun() throws {
        let count = MaterializedView.logLength + 100
        try insert(1...count)
        var snapshot = try snapshot()
        try db.write { try $0.execute(sql: "UPDATE item SET note = 'other'") }
        #expect(try changes(since: &snapshot).updated.count == count)
        try db.write { try $0.execute(sql: "UPDATE item SET note = 'third' WHERE id = 7") }
        #expect(try changes(since: &snapshot).updated.count == 1)
        try db.write { try $0.execute(sql: "DELETE FROM item WHERE id > 3") }
        _ = try changes(since: &snapshot)
        let length = try db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM \(Self.view.tableName)__log") }
        #expect(try #require(length) <= MaterializedView.logLength + 70)
    }

    /// A view of one process is another one each time: any row may look different.
    @Test func aTemporaryView() throws {
        let own = MaterializedView("own", version: 1, of: "item", groupedBy: "box", sortedBy: [.ascending("size")])
        try insert(1...3)
        var options = SharedDatabase.Options()
        options.temporaryExtensions = [own]
        let answer = try SharedDatabase.openReadOnly(
            at: fixture.url,
            schema: .unmanaged,
            as: "widget",
            options: options
        )
        guard case .available(let reader) = answer else { return #expect(Bool(false)) }
        let snapshot = try reader.read { try own.snapshot(in: $0) }
        try db.write { try $0.execute(sql: "UPDATE item SET note = 'other' WHERE id = 2") }
        let changes = try reader.read { db in
            var now = snapshot
            return try own.changes(since: &now, in: db)
        }
        #expect(changes.updated.count == 3 && changes.moved.isEmpty)
    }

    /// Another history of the same length is not taken for the one that the snapshot has seen.
    @Test func whatTheSnapshotHasSeenIsUndone() throws {
        try insert(1...1)
        struct Stop: Error {}
        let undone = Shared<ViewSnapshot?>(nil)
        try? db.write { db in
            try db.execute(sql: "INSERT INTO item VALUES (2, 'a', 0, 'n')")
            let seen = try Self.view.snapshot(in: db)
            undone.change { $0 = seen }
            throw Stop()
        }
        try insert(3...3)
        var snapshot = try #require(undone.value)
        #expect(try !changes(since: &snapshot).isEmpty)
        #expect(snapshot.groups.map { $0.keys.compactMap(\.integer) } == [[1, 3]])
        // And more on top of that.
        var second = try #require(undone.value)
        try insert(4...4)
        #expect(try !changes(since: &second).isEmpty)
    }

    /// Groups and keys whose texts look the same.
    @Test func textsAreComparedByBytes() throws {
        let (composed, decomposed) = ("\u{E9}", "e\u{301}")
        try insert(1...1, box: composed)
        try insert(2...3, box: decomposed)
        var snapshot = try snapshot()
        #expect(snapshot.groups.map(\.keys.count).sorted() == [1, 2])
        try db.write { try $0.execute(sql: "UPDATE item SET size = 9 WHERE id = 1") }
        let update = try changes(since: &snapshot)
        #expect(update.updated.count == 1)
        try db.write { try $0.execute(sql: "UPDATE item SET box = ? WHERE id = 2", arguments: [composed]) }
        #expect(try changes(since: &snapshot).moved.count == 1)
        #expect(ViewKey([composed.databaseValue]) != ViewKey([decomposed.databaseValue]))
    }

    /// Each row that looks different is told, whatever else happens.
    @Test(arguments: [nil, 3]) func allThatChangedIsTold(limit: Int?) throws {
        var random = SeededGenerator()
        func number(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &random) }
        func contents() throws -> [Int64: String] {
            let sql = "SELECT id, box || '/' || size || '/' || note FROM item"
            return try db.read { db in
                Dictionary(uniqueKeysWithValues: try Row.fetchAll(db, sql: sql).map { ($0[0], $0[1] ?? "") })
            }
        }
        var snapshot = try db.read { try Self.view.snapshot(in: $0, limit: limit) }
        var before = try contents()
        for _ in 1...300 {
            let statements = (0...number(0...3)).map { _ -> (String, StatementArguments) in
                let (id, size, box) = (number(1...15), number(-1...4), ["a", "b", "c", nil][number(0...3)])
                return switch number(0...5) {
                case 0, 1: ("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?)", [id, box, size, "\(number(1...9))"])
                case 2: ("UPDATE item SET note = ? WHERE id = ?", ["\(number(1...9))", id])
                case 3: ("UPDATE item SET size = ?, box = ? WHERE id = ?", [size, box, id])
                case 4: ("DELETE FROM item WHERE id = ?", [id])
                default: ("UPDATE OR REPLACE item SET id = ? WHERE id = ?", [number(1...15), id])
                }
            }
            try db.write { db in for (sql, arguments) in statements { try db.execute(sql: sql, arguments: arguments) } }
            let old = snapshot
            let changes = try db.read { [old] db in
                var now = old
                let changes = try Self.view.changes(since: &now, in: db)
                return (told: changes, now: now)
            }
            snapshot = changes.now
            let now = try contents()
            let told = Set(changes.told.updated.map { snapshot.groups[$0.group].keys[$0.row].integer })
            let shown = Set(snapshot.groups.flatMap(\.keys)).intersection(old.groups.flatMap(\.keys)).map(\.integer)
            let missed = shown.compactMap { $0 }.filter { before[$0] != now[$0] && !told.contains($0) }
            #expect(missed == [], "\(statements)")
            #expect(changes.told.applied(to: old.groups, giving: snapshot.groups) == snapshot.groups)
            before = now
        }
    }

    private struct Odd: Codable, FetchableRecord { var x: Int }

    /// Names that need quotes, and look like lists.
    @Test func oddNamesOfKeys() throws {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(
                sql: "CREATE TABLE odd (\"a, b\" INTEGER, sequence TEXT, x, PRIMARY KEY (\"a, b\", sequence))"
            )
            try db.execute(sql: "INSERT INTO odd VALUES (1, 's', 2), (2, 'r', 1)")
        }
        let odd = MaterializedView("odd", version: 1, of: "odd", sortedBy: [.descending("x")])
        let other = try ExtensionFixture()
        let db = try other.open([odd], migrator: migrator)
        #expect(try db.read { db in try odd.rows(Odd.self, in: db).map(\.x) } == [2, 1])
    }
}
