import RoundtableUnitSupport
import Testing

@testable import RoundtableCore

/// The groups of shared commits, in orders that the walk reaches in larger worlds only.
@Suite struct SharedCommitGroupTests {
    /// Rule M5a: a write that must be alone shares no transaction, neither the one of a write before it nor that of one after it.
    @Test func aWriteThatMustBeAloneSharesNoTransaction() throws {
        var groups = CommitGroups<String>()
        let isAlone = { $0 == "alone" }
        let founded = groups.join("newcomer")
        let later = [groups.join("alone"), groups.join("late")]
        #expect(later == [nil, nil])
        let group = try #require(founded)
        for expected in ["newcomer", "alone", "late"] {
            let begun = groups.beginAccess(group)
            let access = try #require(begun)
            #expect(access.first == expected)
            var transaction = SharedTransaction<String>()
            let taken = groups.take(from: group, into: &transaction, isAlone: isAlone)
            #expect(taken?.write == expected)
            // The first one has a savepoint, because other writes wait and could share its transaction.
            #expect((taken?.extent == .transaction(isShareable: false)) == (expected == "alone"))
            if expected == "newcomer" {
                let next = groups.take(from: group, into: &transaction, isAlone: isAlone)
                #expect(next == nil)
            }
            let (outcomes, mustSchedule) = groups.end(group, transaction, .final, lastTicket: access.lastTicket)
            #expect(outcomes.map(\.outcome) == [.final])
            #expect(mustSchedule == (expected != "late"))
        }
    }
}
