import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// What a view reports of its changes, where the log alone does not show it (rule E8).
@Suite struct ViewChangesTests {
    private static let view = MaterializedView(
        "list",
        version: 1,
        of: "item",
        where: "size >= 0",
        groupedBy: "box",
        sortedBy: [.ascending("size")]
    )

    private let fixture: DerivedTableFixture
    private let db: SharedDatabase

    init() throws {
        fixture = try DerivedTableFixture()
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

    private func contents() throws -> ViewContents { try db.read { try Self.view.contents(in: $0) } }

    private func changes(since contents: inout ViewContents) throws -> ViewChanges {
        let before = contents
        let (changes, after) = try db.read { [contents] db in
            var after = contents
            return (try Self.view.changes(since: &after, in: db), after)
        }
        contents = after
        #expect(changes.applied(to: before.groups, giving: after.groups) == after.groups)
        #expect(try self.contents().groups == after.groups)
        return changes
    }

    /// More changes than the log holds: any row may look different.
    @Test func theLogIsOverrun() throws {
        let count = MaterializedView.logLength + 100
        try insert(1...count)
        var contents = try contents()
        try db.write { try $0.execute(sql: "UPDATE item SET note = 'other'") }
        #expect(try changes(since: &contents).updated.count == count)
        try db.write { try $0.execute(sql: "UPDATE item SET note = 'third' WHERE id = 7") }
        #expect(try changes(since: &contents).updated.count == 1)
        try db.write { try $0.execute(sql: "DELETE FROM item WHERE id > 3") }
        _ = try changes(since: &contents)
        let length = try db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM \(Self.view.tableName)__log") }
        #expect(try #require(length) <= MaterializedView.logLength + 70)
    }

    /// A view of one process is another one each time: any row may look different.
    @Test func aTemporaryView() throws {
        let own = MaterializedView("own", version: 1, of: "item", groupedBy: "box", sortedBy: [.ascending("size")])
        try insert(1...3)
        var options = SharedDatabase.Options()
        options.temporaryDerivedTables = [own]
        let answer = try SharedDatabase.openReadOnly(
            at: fixture.url,
            schema: .unmanaged,
            as: "widget",
            options: options
        )
        guard case .available(let reader) = answer else { return #expect(Bool(false)) }
        let contents = try reader.read { try own.contents(in: $0) }
        try db.write { try $0.execute(sql: "UPDATE item SET note = 'other' WHERE id = 2") }
        let changes = try reader.read { db in
            var now = contents
            return try own.changes(since: &now, in: db)
        }
        #expect(changes.updated.count == 3 && changes.moved.isEmpty)
    }

    /// Another history of the same length is not taken for the one that the contents has seen.
    @Test func whatTheSnapshotHasSeenIsUndone() throws {
        try insert(1...1)
        struct Stop: Error {}
        let undone = Shared<ViewContents?>(nil)
        try? db.write { db in
            try db.execute(sql: "INSERT INTO item VALUES (2, 'a', 0, 'n')")
            let seen = try Self.view.contents(in: db)
            undone.change { $0 = seen }
            throw Stop()
        }
        try insert(3...3)
        var contents = try #require(undone.value)
        #expect(try !changes(since: &contents).isEmpty)
        #expect(contents.groups.map { $0.keys.compactMap(\.integer) } == [[1, 3]])
        // More is written on top of that.
        var second = try #require(undone.value)
        try insert(4...4)
        #expect(try !changes(since: &second).isEmpty)
    }

    /// Groups and keys whose texts look the same.
    @Test func textsAreComparedByBytes() throws {
        let (composed, decomposed) = ("\u{E9}", "e\u{301}")
        try insert(1...1, box: composed)
        try insert(2...3, box: decomposed)
        var contents = try contents()
        #expect(contents.groups.map(\.keys.count).sorted() == [1, 2])
        try db.write { try $0.execute(sql: "UPDATE item SET size = 9 WHERE id = 1") }
        let update = try changes(since: &contents)
        #expect(update.updated.count == 1)
        try db.write { try $0.execute(sql: "UPDATE item SET box = ? WHERE id = 2", arguments: [composed]) }
        #expect(try changes(since: &contents).moved.count == 1)
        #expect(ViewKey([composed.databaseValue]) != ViewKey([decomposed.databaseValue]))
    }

    /// Each row that looks different is reported, whatever else happens.
    @Test(arguments: [nil, 3]) func allThatChangedIsReported(limit: Int?) throws {
        var random = SeededGenerator()
        func number(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &random) }
        func names() throws -> [Int64: String] {
            let sql = "SELECT id, box || '/' || size || '/' || note FROM item"
            return try db.read { db in
                Dictionary(uniqueKeysWithValues: try Row.fetchAll(db, sql: sql).map { ($0[0], $0[1] ?? "") })
            }
        }
        var contents = try db.read { try Self.view.contents(in: $0, limit: limit) }
        var before = try names()
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
            let old = contents
            let changes = try db.read { [old] db in
                var now = old
                let changes = try Self.view.changes(since: &now, in: db)
                return (reported: changes, now: now)
            }
            contents = changes.now
            let now = try names()
            let updated = Set(changes.reported.updated.map { contents.groups[$0.group].keys[$0.row].integer })
            let shown = Set(contents.groups.flatMap(\.keys)).intersection(old.groups.flatMap(\.keys)).map(\.integer)
            let missed = shown.compactMap { $0 }.filter { before[$0] != now[$0] && !updated.contains($0) }
            #expect(missed == [], "\(statements)")
            #expect(changes.reported.applied(to: old.groups, giving: contents.groups) == contents.groups)
            before = now
        }
    }

    private struct Odd: Codable, FetchableRecord { var x: Int }

    /// Names that need quotes, and look like lists.
    @Test func oddNamesOfKeys() throws {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE odd (
                        "a, b" INTEGER, sequence TEXT, "{new.keys}" TEXT DEFAULT 'a', "{schema}" TEXT DEFAULT 'b', x,
                        PRIMARY KEY ("a, b", sequence, "{new.keys}", "{schema}")
                    )
                    """
            )
            try db.execute(sql: "INSERT INTO odd (\"a, b\", sequence, x) VALUES (1, 's', 2), (2, 'r', 1)")
        }
        let odd = MaterializedView("odd", version: 1, of: "odd", sortedBy: [.descending("x")])
        let other = try DerivedTableFixture()
        let db = try other.open([odd], migrator: migrator)
        try db.write { try $0.execute(sql: "INSERT INTO odd (\"a, b\", sequence, x) VALUES (3, 'q', 3)") }
        #expect(try db.read { db in try odd.rows(Odd.self, in: db).map(\.x) } == [3, 2, 1])
    }
}
