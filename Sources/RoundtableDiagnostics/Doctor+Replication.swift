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

    /// Reports a database that another machine has replaced as the writer.
    mutating func examineFence(_ status: DatabaseStatus) {
        guard let fence = status.fence else { return }
        find(.fenced, .warning, fence.lines.what, next: fence.lines.next)
    }

    /// Reports a read replica that gets no new states.
    mutating func examineReplica(_ status: DatabaseStatus) {
        guard let replica = status.replica, replica.isImpaired else { return }
        let pids = [replica.litestream, replica.follower].compactMap(\.self)
        let state = replica.time.map { " Its state is of \($0.formatted(.iso8601))." } ?? ""
        find(
            .replica,
            .warning,
            "The read replica gets no new states: \(replica.problem ?? replica.state.rawValue).\(state)",
            by: pids.map {
                SharingProcess(pid: $0, name: ReplicaStatus.author, isParticipant: $0 == replica.follower)
            },
            next: Self.sentence(replica.advice ?? "Look at the output of 'roundtable follow'")
        )
    }
}
