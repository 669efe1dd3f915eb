import Foundation
import GRDB
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

@Suite struct ParametersTests {
    @Test(arguments: [
        ("42", 42.databaseValue), ("-1", (-1).databaseValue), ("1.5", 1.5.databaseValue), ("NULL", .null),
        ("x'6869'", Data("hi".utf8).databaseValue), ("'42'", "42".databaseValue), ("'it''s'", "it's".databaseValue),
    ])
    func `Literals are values`(text: String, expected: DatabaseValue) {
        #expect(Parameters.value(text) == expected)
    }

    /// What SQLite would not write back in the same way must not become a number: a postal code is no number.
    @Test(arguments: ["007", "+1", "1.50", "1e3", "nan", "inf", "null", "", "x'6'", "it's", "99999999999999999999"])
    func `All else is text`(text: String) {
        #expect(Parameters.value(text) == text.databaseValue)
    }

    @Test func `Values go to statements in their order, and names wherever they are asked for`() throws {
        try DatabaseQueue().inDatabase { db in
            var parameters = Parameters(["1", ":n=two", "3", "@m=4"])
            let first = try db.makeStatement(sql: "SELECT ? AS a, :n AS b")
            try parameters.bind(to: first)
            #expect(try Row.fetchOne(first) == ["a": 1, "b": "two"])
            let second = try db.makeStatement(sql: "SELECT :n AS a, @m AS b, ? AS c")
            try parameters.bind(to: second)
            #expect(try Row.fetchOne(second) == ["a": "two", "b": 4, "c": 3])
            try parameters.checkAllUsed()
        }
    }

    @Test(arguments: [(["1"], "SELECT ?, ?"), ([":a=1"], "SELECT ?"), (["1"], "SELECT :a"), (["1", "2"], "SELECT ?")])
    func `Too few and too many are errors`(texts: [String], sql: String) throws {
        try DatabaseQueue().inDatabase { db in
            var parameters = Parameters(texts)
            let statement = try db.makeStatement(sql: sql)
            #expect(throws: ToolError.self) {
                try parameters.bind(to: statement)
                try parameters.checkAllUsed()
            }
        }
    }
}
