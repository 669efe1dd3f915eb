import Foundation
import Roundtable

extension StatusText {
    /// The derived tables, with those that are not ready; nil without derived tables.
    var derivedTables: String? {
        guard let derivedTables = status.derivedTables else { return nil }
        let names = derivedTables.tables.map { "'\($0.name)' \($0.version)" }.joined(separator: ", ")
        var parts = ["revision \(derivedTables.revision)", names.isEmpty ? "none" : names]
        for one in derivedTables.tables {
            switch one.state {
            case .ready: break
            case .building:
                let done = one.total > 0 ? " (\(min(100, one.done * 100 / one.total)) %)" : ""
                parts.append("'\(one.name)' is being built\(done)")
            case .baseTableMissing: parts.append("'\(one.name)' has lost its table")
            case .triggersMissing: parts.append("'\(one.name)' has lost its triggers")
            }
        }
        return parts.joined(separator: " · ")
    }
}
