import Roundtable
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

@Suite struct TextTableTests {
    @Test func `Columns are as wide as their widest cell, and no line ends in spaces`() {
        var table = TextTable(columns: [("name", .left), ("n", .right)], indentation: " ")
        table.rows = [["Arthur", "1"], ["漢字", "1,234"], ["x", ""]]
        #expect(
            table.lines == [
                " name        n", " ──────  ─────", " Arthur      1", " 漢字    1,234", " x",
            ]
        )
    }

    @Test func `Digits are grouped by three`() {
        #expect([0, 999, 1000, 1_234_567, -1000].map(\.grouped) == ["0", "999", "1,000", "1,234,567", "-1,000"])
    }
}
