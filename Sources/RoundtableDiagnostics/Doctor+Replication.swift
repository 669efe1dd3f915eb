import Foundation
import RoundtableCore

extension Doctor {
    /// Reports a replication that does not work.
    mutating func examineReplication(_ status: DatabaseStatus) {
        guard let replication = status.replication, replication.isImpaired else { return }
        let pids = [replication.litestream, replication.supervisor].compactMap(\.self)
        let behind = replication.lastSync.map { " The last sync was at \($0.formatted(.iso8601))." }
        let target = replication.url.map { " to \($0)" } ?? ""
        find(
            .replication,
            .warning,
            "The replication\(target) does not work: \(replication.problem ?? replication.state.rawValue).\(behind ?? "")",
            by: pids.map {
                SharingProcess(pid: $0, name: ReplicationStatus.author, isParticipant: $0 == replication.supervisor)
            },
            next: Self.sentence(replication.advice ?? "Look at the output of 'roundtable replicate'")
        )
    }
}
