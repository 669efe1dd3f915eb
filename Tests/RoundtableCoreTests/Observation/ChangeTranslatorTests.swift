import Foundation
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableKernel

/// These tests check the changes that readers of the ring receive.
@Suite struct ChangeTranslatorTests {
    private func record(_ counter: UInt32, _ tables: TableSet) -> ChangeRecord {
        ChangeRecord(
            sequence: 1,
            state: .committed,
            counter: counter,
            owner: OwnerWord(pid: 1, incarnation: 1),
            time: 0,
            tables: tables,
            author: "a"
        )
    }

    /// The numbers of changes grow, also when SQLite sets its counter back: two changes have never the same.
    @Test func numbersGrowOverAReset() {
        var translator = ChangeTranslator(nil, from: 100)
        var numbers: [UInt64] = []
        func deliver(_ news: [RingReader.News], upTo reached: UInt32) {
            numbers += translator.changes(news, upTo: reached) { _ in false }.map(\.sequence)
        }
        deliver([.change(record(101, .unknown))], upTo: 101)
        deliver([.anything(.reset)], upTo: 3)
        deliver([.change(record(4, .unknown))], upTo: 4)
        deliver([.anything(.reset), .change(record(2, .unknown))], upTo: 2)
        deliver([.change(record(3, .unknown))], upTo: 3)
        #expect(numbers == [101, 102, 103, 104, 105, 106])
    }

    /// Rule R6: a set without tables, and a number without a name, may be any table.
    @Test func anEmptySetIsAnyTable() throws {
        let folder = try TemporaryFolder()
        let block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("a").path, access: nil)
        var nameless = TableSet()
        nameless.insert(7)
        for tables in [TableSet(), nameless] {
            for block in [nil, block] {
                var translator = ChangeTranslator(block, from: 100)
                let changes = translator.changes([.change(record(101, tables))], upTo: 101) { _ in false }
                #expect(changes.map(\.tables) == [.fullDatabase])
            }
        }
    }
}
