import GRDB
import RoundtableCore

/// The history of each database: each writer connection stamps the rows that the triggers write.
package final class HistoryFeature: DatabaseFeature {
    package init(_ opening: inout DatabaseOpening) {}

    package func writeCompanion() -> (any WriteCompanion)? { HistoryStamp() }

    package func contentWillReplaceOther(_ copy: Database) throws { try HistoryTables.beginAnew(copy) }
}
