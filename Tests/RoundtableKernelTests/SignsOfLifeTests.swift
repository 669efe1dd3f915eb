import Foundation
import Synchronization
import Testing

@testable import RoundtableKernel

/// **Rule P16**
@Suite struct SignsOfLifeTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("db")
    }

    private func seat(_ author: String) -> Seat {
        Seat(databasePath: path, author: author, role: .readWrite, settings: .testing(), access: nil)
    }

    @Test func answers() throws {
        let (one, other) = (seat("one"), seat("other"))
        let (block, owner) = try (#require(other.participant?.block), #require(one.participant?.owner))
        #expect(block.signOfLife(of: owner) == .present(answered: 0))
        #expect(block.ask() == 1 && block.lastQuestion == 1)
        #expect(block.signOfLife(of: owner) == .present(answered: 0))
        one.answer(1, in: block)
        #expect(block.signOfLife(of: owner) == .present(answered: 1))
        one.show(isSuspended: true)
        #expect(block.signOfLife(of: owner) == .suspended)
        one.show(isSuspended: false)
        one.leave()
        #expect(block.signOfLife(of: owner) == .absent)
    }

    /// A slot that is claimed has answered what was asked before, whatever a former owner left there.
    @Test func aNewOwnerHasAnswered() throws {
        let (one, other) = (seat("one"), seat("other"))
        let block = try #require(other.participant?.block)
        let slot = try #require(one.participant?.slot.index)
        one.participant?.answer(1000)
        one.leave()
        for _ in 0..<3 { _ = block.ask() }
        let next = seat("next")
        let participant = try #require(next.participant)
        #expect(participant.slot.index == slot)
        #expect(block.signOfLife(of: participant.owner) == .present(answered: 3))
    }

    /// **Rule G2**: no question has had this number.
    @Test func anAnswerToNoQuestion() throws {
        let (one, other) = (seat("one"), seat("other"))
        let (block, owner) = try (#require(other.participant?.block), #require(one.participant?.owner))
        one.participant?.answer(1000)
        #expect(block.signOfLife(of: owner) == .present(answered: nil))
        for _ in 0..<3 { _ = block.ask() }
        #expect(block.signOfLife(of: owner) == .present(answered: nil))
        one.answer(3, in: block)
        #expect(block.signOfLife(of: owner) == .present(answered: 3))
        one.show(refusesWrites: true)
        #expect(block.signOfLife(of: owner) == .refusesWrites)
    }

    /// An answer goes to the block in which the question was asked.
    @Test func anotherBlock() throws {
        let one = seat("one")
        let (old, owner) = try (#require(one.participant?.block), #require(one.participant?.owner))
        _ = old.ask()
        unlink(ControlBlock.path(forDatabaseAt: path))
        let other = seat("other")
        let block = try #require(other.participant?.block)
        other.answer(1, in: old)
        #expect(block.signOfLife(of: try #require(other.participant?.owner)) == .present(answered: 0))
        one.answer(1, in: old)
        #expect(old.signOfLife(of: owner) == .present(answered: 1))
    }

    @Test func aDeadOwnerIsGone() throws {
        let other = seat("other")
        let block = try #require(other.participant?.block)
        let dead = try endedProcess()
        let one = seat("one")
        let slot = try #require(one.participant?.slot)
        let owner = OwnerWord(pid: dead.pid, incarnation: 1)
        #expect(block.signOfLife(of: owner) == .absent)
        slot.changeTraits { $0.incarnation = 1 }
        slot[.startTime] = dead.startTime
        slot.owner.pointee.store(owner.rawValue, ordering: .sequentiallyConsistent)
        #expect(block.signOfLife(of: owner) == .gone)
    }

    @Test(
        arguments: [
            (answered: UInt32(5), question: UInt32(5), true), (6, 5, true), (4, 5, false), (1, .max, true),
            (.max, 1, false),
        ]
    )
    func theNumberWraps(answered: UInt32, question: UInt32, isAnswer: Bool) {
        #expect(SignOfLife.answers(answered, question) == isAnswer)
    }
}
