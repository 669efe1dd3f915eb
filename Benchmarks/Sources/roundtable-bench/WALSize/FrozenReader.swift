import Foundation
import Roundtable

/// A reader that is stopped in its read transaction, and killed later, as the trial goes on.
final class FrozenReader {
    private enum Phase {
        case waiting
        case entering
        case frozen
        case dead
    }

    private let process: ParticipantProcess
    private let plan: WALSizePlan.Freeze
    private var phase = Phase.waiting
    /// On the clock that all processes share.
    private(set) var frozenAt: Nanoseconds?
    private(set) var diedAt: Nanoseconds?
    /// What an onlooker has seen.
    private(set) var report: GrowthReport?

    var pid: Int32 { process.pid }

    init(_ process: ParticipantProcess, _ plan: WALSizePlan.Freeze) {
        self.process = process
        self.plan = plan
    }

    /// - parameter start: of the trial.
    func step(start: Nanoseconds) throws {
        let now = Clock.now
        switch phase {
        case .waiting where now >= start + plan.start:
            try process.start(Schedule(start: now, end: .max))
            phase = .entering
        case .entering where try process.hasSaid(WALSizeTask.inside):
            process.signal(SIGSTOP)
            frozenAt = Clock.now
            phase = .frozen
        case .frozen where now >= (frozenAt ?? now) + plan.duration:
            process.signal(SIGKILL)
            diedAt = Clock.now
            phase = .dead
        default: break
        }
    }

    /// The WAL is longer than the bound, and the status says that this reader's transaction is what holds it.
    func note(_ status: DatabaseStatus?, frames: Int?) {
        guard report == nil, phase == .frozen, let frames, frames > WALSizePlan.boundInFrames else { return }
        guard let culprit = status?.participants.first(where: { $0.pid == pid && $0.oldestRead != nil }) else { return }
        report = GrowthReport(time: Clock.now, culprit: culprit.author, pid: culprit.pid)
    }
}
