import Foundation
import GRDB
import RoundtableCore
import RoundtableKernel
import RoundtableRoles

/// A role, seen from outside (<doc:Jobs#Roles>).
public struct RoleStatus: Codable, Sendable, Equatable {
    public var name: String
    /// The number of the last term.
    public var generation: Int64
    /// The participant that has the role; nil: none. One that is dead or suspended has it until another one wants it.
    public var holder: SharingProcess?
    /// Whether the holder is suspended.
    public var isSuspended: Bool
    /// Since when the holder has the role, by the wall clock.
    public var since: Date?
    /// The participants that wait for the role, in the order in which they get it.
    public var waiting: [SharingProcess]

    enum CodingKeys: String, CodingKey {
        case name, generation, holder, since, waiting
        case isSuspended = "is_suspended"
    }
}

extension RoleStatus {
    /// The roles that were ever claimed, by name; nil: none.
    static func all(_ db: Database, _ block: ControlBlock?, path: String) throws -> [RoleStatus]? {
        let judge = RoleJudge(block, file: FileStamps(ofDatabaseAt: path).database)
        let roles = try RoleTable.names(db).compactMap { name in
            try RoleTable.view(of: name, db).map { RoleStatus(name, $0, judge) }
        }
        return roles.isEmpty ? nil : roles
    }

    private init(_ name: String, _ view: RoleView, _ judge: RoleJudge) {
        self.name = name
        generation = view.generation
        let claim = view.holdersClaim
        holder = claim.map { Self.process($0, judge.sign(of: $0)) }
        isSuspended = claim.map { judge.sign(of: $0) == .suspended } ?? false
        since = claim.map { _ in Date(timeIntervalSince1970: Double(view.since) / 1000) }
        waiting = view.waiting.map { Self.process($0, judge.sign(of: $0)) }
    }

    /// A process of another pid namespace is seen to have ended by its slot alone.
    private static func process(_ claim: RoleClaim, _ sign: SignOfLife) -> SharingProcess {
        var process = SharingProcess(claim.process, author: claim.author)
        if sign == .gone { process.liveness = .dead }
        return process
    }
}
