import RoundtableProcesses
import Testing

@Suite struct SeededGeneratorTests {
    /// A seed is read as it is printed.
    @Test func seeds() {
        #expect(SeededGenerator.seed(named: "0x1f") == 31)
        #expect(SeededGenerator.seed(named: "0x\(String(UInt64.max, radix: 16))") == .max)
        #expect(SeededGenerator.seed(named: "17") == 17)
        for text in ["", "0x", "x", "0xg", "-1"] { #expect(SeededGenerator.seed(named: text) == nil, "\(text)") }
    }
}
