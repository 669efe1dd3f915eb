import RoundtableUnitSupport
import Testing

@testable import RoundtableTables

/// The affinity of a column follows from its declared type by the rules, in their order, of <https://www.sqlite.org/datatype3.html>, section 3.1.
@Suite struct AffinityTests {
    @Test(arguments: [
        ("INT", Affinity.integer), ("BIGINT", .integer), ("UNSIGNED BIG INT", .integer), ("CHARINT", .integer),
        ("FLOATING POINT", .integer),
        ("VARCHAR(255)", .text), ("NATIVE CHARACTER(70)", .text), ("CLOB", .text), ("text", .text),
        ("BLOB", .blob), ("", .blob),
        ("REAL", .real), ("DOUBLE PRECISION", .real), ("FLOAT", .real), ("float(8)", .real),
        ("NUMERIC", .numeric), ("DECIMAL(10,5)", .numeric), ("BOOLEAN", .numeric), ("DATETIME", .numeric),
        ("STRING", .numeric), ("ANY", .numeric),
    ])
    func ofADeclaredType(type: String, affinity: Affinity) {
        #expect(Affinity(ofType: type, inStrictTable: false) == affinity)
    }

    @Test func anyOfAStrictTable() {
        #expect(Affinity(ofType: "ANY", inStrictTable: true) == .blob)
        #expect(Affinity(ofType: "INTEGER", inStrictTable: true) == .integer)
    }
}
