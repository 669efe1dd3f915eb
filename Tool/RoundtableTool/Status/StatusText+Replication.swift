import Foundation
import Roundtable
import RoundtableKernel
import RoundtableReplication

extension StatusText {
    /// The state of the replication; nil when the database is not replicated.
    var replication: String? {
        guard let replication = status.replication else { return nil }
        return ReplicationText.line(replication, at: Date())
    }
}

extension StatusText {
    /// The state of a read replica; nil for any other database.
    var replica: String? { status.replica.map { ReplicaText.line($0, at: Date()) } }
}

extension StatusText {
    /// Who writes instead; nil when the database is not fenced.
    var fence: String? { status.fence.map { "! \($0.lines.what) \($0.lines.next)" } }
}
