import Foundation

struct Book: Codable, Sendable {
    var title: String
    var shelf: String
}

struct Downloaded: Codable, Sendable {}

// MARK: YapDatabase, in its shapes (https://github.com/yapstudios/YapDatabase)

final class YapDatabaseReadTransaction {}

struct YapDatabaseViewGrouping {
    static func withObjectBlock(_ block: (YapDatabaseReadTransaction, String, String, Any) -> String?) -> Self {
        Self()
    }
}

struct YapDatabaseViewSorting {
    static func withObjectBlock(
        _ block: (YapDatabaseReadTransaction, String, String, String, Any, String, String, Any) -> ComparisonResult
    ) -> Self { Self() }
}

struct YapDatabaseAutoView {
    init(grouping: YapDatabaseViewGrouping, sorting: YapDatabaseViewSorting) {}
}

struct YapDatabase {
    func register(_ view: YapDatabaseAutoView, withName name: String) {}
}

var database: YapDatabase { YapDatabase() }
