import Foundation
import RoundtableCore
import RoundtableKernel

extension DatabaseDiagnosis {
    /// Reports a replication that does not work.
    mutating func examineReplication(_ status: DatabaseStatus) {
        guard let replication = status.replication, replication.isImpaired else { return }
        let behind = replication.lastSync.map { " The last sync was at \($0.formatted(.iso8601))." }
        let target = replication.url.map { " to \($0.claim)" } ?? ""
        let source = replication.reporter.source(name(ofFileWith: "-replication"))
        find(
            .replication,
            .warning,
            "The replication\(target) does not work: \(replication.problem ?? replication.state.rawValue).\(behind ?? "")\(source)",
            by: parties(replication.litestream, replication.supervisor, ReplicationStatus.author, replication.reporter),
            advice: Self.sentence(replication.advice ?? "Look at the output of 'roundtable replicate'")
        )
    }

    /// Reports a database that another machine has replaced as the writer.
    mutating func examineFence(_ status: DatabaseStatus) {
        guard let fence = status.fence else { return }
        let source = fence.reporter.source(name(ofFileWith: Fence.suffix))
        find(.fenced, .warning, fence.lines.what + source, advice: fence.lines.next)
    }

    /// Reports a read replica that gets no new states.
    mutating func examineReplica(_ status: DatabaseStatus) {
        guard let replica = status.replica, replica.isImpaired else { return }
        let state = replica.time.map { " Its state is of \($0.formatted(.iso8601))." } ?? ""
        let source = replica.reporter.source(name(ofFileWith: ReadReplica.suffix))
        find(
            .replica,
            .warning,
            "The read replica gets no new states: \(replica.problem ?? replica.state.rawValue).\(state)\(source)",
            by: parties(replica.litestream, replica.follower, ReplicaStatus.author, replica.reporter),
            advice: Self.sentence(replica.advice ?? "Look at the output of 'roundtable follow'")
        )
    }

    private func name(ofFileWith ending: String) -> String { (path as NSString).lastPathComponent + ending }

    /// The processes that a report names, if they are the reporter's.
    private func parties(_ litestream: Int32?, _ pid: Int32?, _ author: String, _ reporter: FileOwner?)
        -> [SharingProcess]
    {
        [(litestream, ReplicationStatus.author), (pid, "roundtable")].compactMap { process, program in
            guard let process, reporter?.runs(process, program: program) == true else { return nil }
            return SharingProcess(pid: process, name: author, isParticipant: process == pid)
        }
    }
}
