import Foundation
import GRDB

/// The tables whose changes a consumer was handed (rule H11).
enum ConsumedTables: Hashable, Sendable {
    /// Any tables: the consumer was restarted, and has not asked for tables yet.
    case any
    /// All tables, including those that are created later.
    case all
    /// The ids of the tables, which stay when a table is renamed.
    case some(Set<Int64>)

    func isSubset(of other: ConsumedTables) -> Bool {
        switch (self, other) {
        case (_, .any), (_, .all): true
        case (.some(let tables), .some(let others)): tables.isSubset(of: others)
        case (.any, .some), (.all, .some): false
        }
    }

    func intersection(_ other: ConsumedTables) -> ConsumedTables {
        switch (self, other) {
        case (.some(let tables), .some(let others)): .some(tables.intersection(others))
        case (.any, let tables), (let tables, .any), (.all, let tables), (let tables, .all): tables
        }
    }

    /// The stored form: NULL, `*`, or a JSON list.
    var stored: String? {
        switch self {
        case .any: nil
        case .all: "*"
        case .some(let tables): "[" + tables.sorted().map { "\($0)" }.joined(separator: ",") + "]"
        }
    }

    /// Decodes the stored form. A text that is not a valid list stands for no tables.
    init(stored: String?) {
        switch stored {
        case nil: self = .any
        case "*": self = .all
        case let list?:
            self = .some((try? JSONDecoder().decode(Set<Int64>.self, from: Data(list.utf8))) ?? [])
        }
    }
}
