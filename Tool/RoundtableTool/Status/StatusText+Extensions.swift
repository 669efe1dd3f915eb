import Foundation
import Roundtable

extension StatusText {
    /// The extensions, with those that are not ready; nil without extensions.
    var extensions: String? {
        guard let extensions = status.extensions else { return nil }
        let names = extensions.extensions.map { "'\($0.name)' \($0.version)" }.joined(separator: ", ")
        var parts = ["revision \(extensions.revision)", names.isEmpty ? "none" : names]
        for one in extensions.extensions {
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
