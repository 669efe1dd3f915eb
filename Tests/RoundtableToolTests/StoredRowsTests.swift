import Foundation
import GRDB
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

@Suite struct StoredRowsTests {
    /// All kinds of values come back as they were, in their order, and twice; and memory is bounded.
    @Test func `Rows beyond the bound come from the file`() throws {
        let rows = StoredRows(columnCount: 5)
        func row(_ number: Int) -> [DatabaseValue] {
            [
                number.databaseValue, .null, (Double(number) / 3).databaseValue,
                String(repeating: "é", count: number % 90).databaseValue,
                Data(repeating: UInt8(truncatingIfNeeded: number), count: number % 70).databaseValue,
            ]
        }
        let count = 100_000
        for number in 0..<count {
            try rows.append(row(number))
            #expect(rows.bytesInMemory < StoredRows.memory)
        }
        #expect(rows.count == count && rows.bytesInFile > 2 * StoredRows.memory)
        for _ in 1...2 {
            var number = 0
            try rows.forEach { values in
                if values != row(number) { Issue.record("row \(number): \(values)") }
                number += 1
            }
            #expect(number == count)
        }
    }

    @Test func `A row may be larger than the bound`() throws {
        let rows = StoredRows(columnCount: 1)
        let large = Data(repeating: 7, count: 2 * StoredRows.memory).databaseValue
        for value in [large, 1.databaseValue, large] { try rows.append([value]) }
        var values: [DatabaseValue] = []
        try rows.forEach { values += $0 }
        #expect(values == [large, 1.databaseValue, large])
    }
}
