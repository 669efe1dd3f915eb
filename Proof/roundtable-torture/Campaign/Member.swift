import Foundation
import RoundtableKernel
import RoundtableTestSupport

/// One place in the fleet of a campaign, which processes fill one after the other.
final class Member {
    let role: CampaignWork.Role
    /// Whether its process is never killed.
    let isResident: Bool
    var peer: Peer
    var work: CampaignWork
    var value = 0
    var hasBegun = false
    var lastChange = ContinuousClock.now
    /// The time without progress in which the campaign itself ran, in s.
    var livedGap = 0.0
    /// The moment at which a stopped process is to go on.
    var resumes: ContinuousClock.Instant?

    init(role: CampaignWork.Role, isResident: Bool, peer: Peer, work: CampaignWork) {
        self.role = role
        self.isResident = isResident
        self.peer = peer
        self.work = work
    }

    /// Whether its process has stopped, so that SIGCONT does not come before a stop that it prepares; or has not, for 5 s.
    func hasStopped(since moment: ContinuousClock.Instant) -> Bool {
        ProcessTable.entry(peer.pid)?.isStopped == true || ContinuousClock.now >= moment + .seconds(5)
    }

    /// What grows as long as the process works.
    var progress: Int {
        guard role == .sharedWriter else { return ProgressFile.count(at: work.progress) }
        return ((try? FileManager.default.attributesOfItem(atPath: work.journal)[.size]) as? Int) ?? 0
    }
}
