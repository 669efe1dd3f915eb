import GRDB
import Roundtable

/// A database with tables of all shapes and derived tables of all kinds. Programs of several revisions write to it at random.
package enum DerivedTableWorld {
    package static let boxes = MaterializedView(
        "boxes",
        version: 3,
        of: "item",
        where: "size >= 0",
        groupedBy: "box",
        sortedBy: [.descending("size"), .ascending("name", collation: "NOCASE")]
    )
    package static let tags = MaterializedView("tags", version: 1, of: "tag", sortedBy: [.ascending("weight")])
    package static let fields = SecondaryIndex(
        "fields",
        version: 1,
        of: "item",
        fields: [.json("city", in: "data", at: "$.city"), .init("initial", "upper(substr(name, 1, 1))")]
    )
    package static let words = FullTextSearch("words", version: 1, of: "item", columns: [.init("name")])
    package static let pairWords = FullTextSearch("pair_words", version: 1, of: "pair", columns: [.init("value")])
    package static let sums = AggregateTable(
        "sums",
        version: 1,
        of: "item",
        groupedBy: [.init("box")],
        values: [.init("size")]
    )
    package static let pairs = AggregateTable("pairs", version: 1, of: "pair", values: [.init("slot")])
    package static let nodes = AggregateTable(
        "nodes",
        version: 1,
        of: "node",
        groupedBy: [.init("parent")],
        values: [.init("id_copy", "id")]
    )
    package static let children = AggregateTable("children", version: 1, of: "child", groupedBy: [.init("item")])

    package static let all: [any DerivedTable] = [
        boxes, tags, fields, words, pairWords, sums, pairs, nodes, children,
    ]

    /// The derived table sets that three revisions of a program declare.
    package static func set(_ revision: Int) -> DerivedTableSet {
        switch revision {
        case 1: return DerivedTableSet(revision: 1, [firstBoxes, sums, pairs])
        case 2: return DerivedTableSet(revision: 2, [boxesBySize, sums, words, tags])
        default: return DerivedTableSet(revision: 3, all)
        }
    }

    private static let firstBoxes = MaterializedView("boxes", version: 1, of: "item", sortedBy: [.ascending("name")])
    private static let boxesBySize = MaterializedView(
        "boxes",
        version: 2,
        of: "item",
        groupedBy: "box",
        sortedBy: [.ascending("size")]
    )

    package static let tables = """
        CREATE TABLE item (
            id INTEGER PRIMARY KEY, box TEXT, name TEXT NOT NULL, size INTEGER, data TEXT, code TEXT UNIQUE
        );
        CREATE TABLE tag (name TEXT COLLATE NOCASE PRIMARY KEY, weight, note) WITHOUT ROWID;
        CREATE TABLE pair (a INTEGER, b TEXT, value TEXT, slot INTEGER UNIQUE, PRIMARY KEY (a, b));
        CREATE TABLE node (
            id INTEGER PRIMARY KEY, parent INTEGER REFERENCES node ON DELETE CASCADE, label TEXT UNIQUE
        );
        CREATE TABLE child (id INTEGER PRIMARY KEY, item INTEGER REFERENCES item ON DELETE CASCADE ON UPDATE CASCADE);
        """

    package static func migrator() -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { try $0.execute(sql: tables) }
        return migrator
    }
}
