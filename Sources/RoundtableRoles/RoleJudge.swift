import RoundtableCore
import RoundtableKernel

extension SignOfLife {
    /// Whether others need not wait for a participant that shows this.
    var isFree: Bool {
        switch self {
        case .gone, .suspended, .refusesWrites: true
        case .present, .absent: false
        }
    }
}

/// Judges the participants of claims, by the control block and by the system.
package struct RoleJudge: Sendable {
    package let block: ControlBlock?
    /// The stamp of the database file (rule P15); 0: not known.
    private let file: UInt64

    package init(_ block: ControlBlock?, file: UInt64) { (self.block, self.file) = (block, file) }

    init(_ database: SharedDatabase) {
        self.init(database.seat.participant?.block, file: database.companion(Roles.self).file)
    }

    /// What is seen of the participant of a claim. It is gone, too, if the claim is of another file, its participant has forgotten it, or the
    /// machine was restarted since; and absent if its process may live, and has no slot in the control block that is in place.
    package func sign(of claim: RoleClaim) -> SignOfLife {
        if claim.file != file, claim.file != 0, file != 0 { return .gone }
        // The claims of this process are known, whatever its participants show.
        if claim.process == .current, !Roles.isLive(claim.id) { return .gone }
        if let block, let owner = claim.owner {
            let sign = block.signOfLife(of: owner)
            if sign != .absent { return sign }
        }
        let boot = BootClock.bootID
        if claim.boot != boot, !claim.boot.isEmpty, !boot.isEmpty { return .gone }
        return claim.process.liveness(seenFrom: .current) == .dead ? .gone : .absent
    }

    /// Whether nobody holds the role who can be waited for.
    func isFree(_ view: RoleView) -> Bool { view.holdersClaim.map { sign(of: $0).isFree } ?? true }

    /// The number of claims that come before this one and can have the role.
    func ahead(of id: Int64, in view: RoleView) -> Int {
        view.waiting.prefix { $0.id != id }.count { !sign(of: $0).isFree }
    }

    func holder(of view: RoleView, leavesUnanswered question: UInt32) -> Bool {
        guard let claim = view.holdersClaim else { return true }
        switch sign(of: claim) {
        case .gone, .suspended, .refusesWrites: return true
        case .present(let answered): return answered.map { !SignOfLife.answers($0, question) } ?? true
        case .absent: return block != nil
        }
    }
}
