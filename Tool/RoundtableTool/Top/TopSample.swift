import Foundation
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableKernel

/// What `top` has read of a database at one moment.
struct TopSample: Sendable {
    /// When the participants were read, in ns of the monotonic clock.
    var time: Nanoseconds
    /// When the ring was read. Reading the database in between may take a while.
    var commitsTime: Nanoseconds
    var date: Date
    var status: DatabaseStatus
    /// nil when the control block cannot be used.
    var commits: RecentCommits?
    /// What `doctor` warns of, and errors.
    var warnings: [DatabaseDiagnosis.Finding]
}

/// What happened per second between two samples. Without two samples, nothing is known.
struct TopRates: Equatable, Sendable {
    struct Rate: Equatable, Sendable {
        var perSecond: Double
        /// Whether each commit was counted. If not, the turns of a participant were counted instead, or the records of the ring.
        var isExact: Bool
    }

    /// The seconds between the samples.
    var interval: Double?
    /// Of all participants.
    var commits: Rate?
    private var ofParticipants: [OwnerWord: Rate] = [:]

    /// Over a shorter interval, a single commit would distort the rates.
    private static let shortestInterval = 0.05

    init() {}

    init(from old: TopSample, to new: TopSample) {
        let interval = Self.seconds(from: old.time, to: new.time)
        let ofCommits = Self.seconds(from: old.commitsTime, to: new.commitsTime)
        guard min(interval, ofCommits) >= Self.shortestInterval else { return }
        self.interval = interval
        guard let before = old.commits, let now = new.commits, now.lastSequence >= before.lastSequence else { return }
        let counts = now.counts
        let sum = counts.map { $0.values.reduce(0, +) }
        commits = Rate(
            perSecond: Double(sum ?? Int(clamping: now.lastSequence - before.lastSequence)) / ofCommits,
            isExact: sum != nil
        )
        for participant in new.status.participants {
            guard let owner = participant.owner,
                let earlier = old.status.participants.first(where: { $0.owner == owner })
            else { continue }
            let turns = max(0, participant.turnsTaken - earlier.turnsTaken)
            ofParticipants[owner] = Rate(
                perSecond: counts.map { Double($0[owner] ?? 0) / ofCommits } ?? Double(turns) / interval,
                isExact: counts != nil
            )
        }
    }

    private static func seconds(from old: Nanoseconds, to new: Nanoseconds) -> Double {
        Double(new.subtractingSaturating(old)) / 1e9
    }

    /// nil when the participant was not there at the first sample.
    func commits(of participant: ParticipantStatus) -> Rate? { participant.owner.flatMap { ofParticipants[$0] } }
}

extension TopRates.Rate {
    /// The rate for people. A tilde marks a rate that is not exact.
    var text: String {
        let number =
            perSecond < 9.95 && perSecond > 0 ? String(format: "%.1f", perSecond) : Int(nearest: perSecond).grouped
        return (isExact ? "" : "~") + number
    }
}
