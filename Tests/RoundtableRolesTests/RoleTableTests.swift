import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableRoles

/// The transactions of **rules P18, P19 and P21**, one after the other.
@Suite struct RoleTableTests {
    private let folder: TemporaryFolder
    private let databases: [SharedDatabase]

    init() throws {
        let folder = try TemporaryFolder()
        self.folder = folder
        databases = try ["a", "b", "c"].map { author in
            try SharedDatabase.open(at: folder.file("db.sqlite"), schema: SharedSchema(migrator()), as: author)
        }
    }

    private var judge: RoleJudge { RoleJudge(databases[0]) }

    private func claim(_ index: Int, _ priority: SharedDatabase.TurnPriority = .default) -> RoleClaim {
        let claim = RoleClaim("sync", priority, of: databases[index])
        databases[index].companion(Roles.self).add(claim)
        return claim
    }

    private func file(_ claim: RoleClaim) throws -> Int64? {
        try databases[0].write { try RoleTable.file(claim, $0, judge) }
    }

    private func take(_ claim: RoleClaim, insteadOf holder: Int64?, unanswered question: UInt32? = nil) throws -> Int64?
    {
        try databases[0].write { try RoleTable.take(claim, insteadOf: holder, unanswered: question, $0, judge) }
    }

    private func leave(_ claim: RoleClaim) throws {
        try databases[0].write { try RoleTable.leave(claim.id, of: "sync", $0, judge) }
    }

    private var view: RoleView {
        get throws { try #require(try databases[0].read { try RoleTable.view(of: "sync", $0) }) }
    }

    @Test func aFreeRoleIsTakenByTheFirst() throws {
        let claims = (0..<3).map { claim($0) }
        #expect(try file(claims[0]) == 1)
        #expect(try file(claims[1]) == nil && file(claims[2]) == nil)
        #expect(try view.holder == claims[0].id && view.claims.map(\.id) == claims.map(\.id))
        #expect(try view.claims == claims)
        try leave(claims[0])
        #expect(try view.holder == claims[1].id && view.generation == 2)
        // One that waits.
        try leave(claims[2])
        #expect(try view.holder == claims[1].id && view.claims.count == 1)
        try leave(claims[1])
        #expect(try view.holder == nil && view.generation == 2 && view.claims.isEmpty)
    }

    /// Who comes to a role whose holder is suspended leaves it to those who waited before.
    @Test func whoComesLaterDoesNotOvertake() throws {
        let claims = (0..<3).map { claim($0) }
        _ = try file(claims[0])
        _ = try file(claims[1])
        suspend(0)
        #expect(try databases[2].write { try RoleTable.file(claims[2], $0, judge) } == nil)
        #expect(
            try databases[1].write {
                try RoleTable.take(claims[1], insteadOf: claims[0].id, unanswered: nil, $0, judge)
            } == 2
        )
        databases[0].resume()
        #expect(try view.claims.map(\.id) == [claims[1].id, claims[2].id])
    }

    /// One that is more urgent does.
    @Test func whoIsMoreUrgentOvertakes() throws {
        _ = try file(claim(0))
        let (waiting, urgent) = (claim(1), claim(2, .interactive))
        _ = try file(waiting)
        suspend(0)
        #expect(try databases[2].write { try RoleTable.file(urgent, $0, judge) } == 2)
        databases[0].resume()
        #expect(try view.holder == urgent.id)
    }

    /// A suspended participant is not given the role, and keeps its place.
    @Test func aSuspendedOneIsPassedOver() throws {
        let claims = (0..<3).map { claim($0) }
        for claim in claims { _ = try file(claim) }
        suspend(1)
        try leave(claims[0])
        #expect(try view.holder == claims[2].id)
        databases[1].resume()
        try leave(claims[2])
        #expect(try view.holder == claims[1].id && view.generation == 3)
    }

    /// A holder that is present keeps the role if nobody has asked it, or it has answered, or another one has the role by now.
    @Test func aHolderThatAnswersKeepsTheRole() throws {
        let claims = (0..<3).map { claim($0) }
        for claim in claims { _ = try file(claim) }
        #expect(try take(claims[1], insteadOf: claims[0].id) == nil)
        let block = try #require(databases[0].seat.participant?.block)
        let question = block.ask()
        databases[0].seat.answer(question, in: block)
        #expect(try take(claims[1], insteadOf: claims[0].id, unanswered: question) == nil)
        let next = block.ask()
        // It was judged when another one had the role.
        #expect(try take(claims[1], insteadOf: claims[2].id, unanswered: next) == nil)
        #expect(try view.holder == claims[0].id && view.generation == 1)
        #expect(try take(claims[1], insteadOf: claims[0].id, unanswered: next) == 2)
        #expect(try view.claims.map(\.id) == [claims[1].id, claims[2].id])
        // The claim is gone.
        #expect(try take(claims[0], insteadOf: claims[1].id, unanswered: next) == nil)
    }

    private func suspend(_ index: Int) { _ = databases[index].suspend(deadline: .now + .seconds(5)) }
}
