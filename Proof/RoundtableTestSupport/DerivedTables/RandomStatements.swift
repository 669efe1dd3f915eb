import GRDB

/// Random statements of all kinds that change rows. SQLite refuses some of them.
package struct RandomStatements {
    package var random: SeededGenerator

    package init(_ random: SeededGenerator) { self.random = random }

    private mutating func pick<T>(_ list: [T]) -> T { list.randomElement(using: &random)! }
    private mutating func number(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &random) }

    /// Triggers of an application that is not aware of derived tables. They write other tables, and rows of their own table again.
    package static let triggers = [
        "CREATE TRIGGER again AFTER INSERT ON item WHEN new.size = 5 BEGIN INSERT OR REPLACE INTO item VALUES (new.id, new.box, new.name, 6, new.data, new.code); END",
        "CREATE TRIGGER copy AFTER INSERT ON item WHEN new.size = 4 BEGIN INSERT OR IGNORE INTO item VALUES (new.id + 50, new.box, new.name, 7, new.data, new.code); END",
        "CREATE TRIGGER codes AFTER UPDATE OF code ON item WHEN new.size > 3 BEGIN DELETE FROM item WHERE id = new.id; INSERT INTO item VALUES (new.id, new.box, new.name, 1, new.data, new.code); END",
        "CREATE TRIGGER audit AFTER INSERT ON item WHEN new.size < 1 BEGIN INSERT INTO audit VALUES (new.code, new.id % 5); END",
        "CREATE TRIGGER audit_update AFTER UPDATE OF box ON item BEGIN INSERT INTO audit VALUES (NULL, new.id % 5); END",
    ]

    package static let vocabulary = ["round", "table", "Turn", "fair", "lock", "zebra"]

    private mutating func words() -> String {
        (0..<number(1...3)).map { _ in pick(Self.vocabulary) }.joined(separator: " ")
    }

    private mutating func size() -> String {
        pick(["\(number(-3...9))", "\(number(-3...9))", "\(number(-3...9)).5", "1099511627777", "9e999", "-9e999"])
    }

    private mutating func item() -> [String] {
        let box = pick(["'a'", "'b'", "'c'", "NULL"])
        let data = pick(["NULL", "'no json'", "'{\"city\": \"Oslo\"}'", "'{\"city\": \(number(1...3))}'"])
        let code = pick(["NULL", "NULL", "'c\(number(1...12))'"])
        return ["\(number(1...40))", box, "'\(words())'", size(), data, code]
    }

    /// Applies `change` to texts only. A blob could become a text that contains zeros, and GRDB reads such a text up to the first zero.
    private static func text(_ change: String) -> String {
        "CASE typeof(name) WHEN 'text' THEN \(change) ELSE name END"
    }

    /// Runs one to four statements. Those that violate a constraint are skipped.
    package mutating func transaction(_ db: Database) throws {
        for _ in 0..<number(1...4) {
            do {
                try db.execute(sql: next())
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                // The statement violates a constraint and is skipped.
            }
        }
    }

    package mutating func next() -> String {
        let resolution = pick(["", "", " OR REPLACE", " OR IGNORE", " OR FAIL"])
        switch number(0...15) {
        case 0...3: return "INSERT\(resolution) INTO item VALUES (\(item().joined(separator: ", ")))"
        case 4:
            let values = item()
            return """
                INSERT INTO item VALUES (\(values.joined(separator: ", "))) ON CONFLICT DO UPDATE SET size = size + 1
                """
        case 5:
            let column = pick(["box", "name", "size", "data", "code", "id"])
            let index = ["id", "box", "name", "size", "data", "code"].firstIndex(of: column)!
            return "UPDATE\(resolution) item SET \(column) = \(item()[index]) WHERE id = \(number(1...40))"
        case 6:
            let change = "size = \(size()), data = NULL"
            return "UPDATE\(resolution) item SET \(change) WHERE id <= 100 AND id % 7 = \(number(0...6))"
        case 7: return "DELETE FROM item WHERE id = \(number(1...40))"
        case 8:
            let name = pick(["'x'", "'X'", "'y'", "'é'", "x'00'", "''"])
            return "INSERT\(resolution) INTO tag VALUES (\(name), \(number(1...5)), '\(words())')"
        case 9:
            return
                "UPDATE\(resolution) tag SET name = \(pick([Self.text("upper(name)"), Self.text("lower(name)"), "'x'", Self.text("name || 'z'")])) WHERE weight = \(number(1...5))"
        case 10:
            return pick([
                "DELETE FROM tag WHERE weight = 2", "UPDATE tag SET weight = weight % 5 + 1",
                "UPDATE tag SET note = 'n'",
            ])
        case 11:
            let a = pick(["1", "2", "NULL", "3"])
            let slot = pick(["NULL", "\(number(1...5))"])
            return "INSERT\(resolution) INTO pair VALUES (\(a), '\(number(1...4))', '\(words())', \(slot))"
        case 12: return "UPDATE\(resolution) pair SET slot = \(number(1...5)), b = b || '' WHERE a = \(number(1...3))"
        case 13:
            let parent = pick(["NULL", "\(number(1...8))"])
            return "INSERT\(resolution) INTO node VALUES (\(number(1...8)), \(parent), 'l\(number(1...6))')"
        case 14:
            return pick([
                "UPDATE\(resolution) node SET label = 'l\(number(1...6))', parent = \(number(1...8)) WHERE id = \(number(1...8))",
                "DELETE FROM node WHERE id = \(number(1...8))", "DELETE FROM pair WHERE a = \(number(1...3))",
            ])
        default: return "INSERT\(resolution) INTO child VALUES (\(number(1...30)), \(number(1...40)))"
        }
    }
}
