import Foundation
import RoundtableFiles

/// The errors of `RoundtableCore` that `DatabaseURI` throws. That module needs GRDB, which the fuzzers do without.
enum DatabaseLocationError: Error {
    case invalidURI(String, reason: String)
}

enum SharedDatabaseError: Error {
    case notAFileURL(URL)
}

/// The text of a history token.
enum TokenTarget: FuzzTarget {
    static let name = "history-token"

    static func seeds() throws -> [[UInt8]] {
        let tokens = [
            HistoryToken(identity: "3f09a1b2c4d5e6f7", sequence: 42),
            HistoryToken(identity: "0000000000000000", sequence: 0),
            HistoryToken(identity: "ffffffffffffffff", sequence: .max),
        ]
        return tokens.map { Array($0.description.utf8) }
    }

    static func run(_ input: [UInt8]) throws {
        let text = String(decoding: input, as: UTF8.self)
        guard let token = HistoryToken(text) else { return }
        require(token.sequence >= 0, "'\(text)' has a negative sequence")
        require(token.description == text, "'\(text)' is taken for '\(token)'")
        let decoded = try JSONDecoder().decode([HistoryToken].self, from: JSONEncoder().encode([token]))
        require(decoded == [token], "'\(text)' is decoded as '\(decoded)'")
    }
}

/// SQLite's URIs.
enum URITarget: FuzzTarget {
    static let name = "uri"

    static func seeds() throws -> [[UInt8]] {
        [
            "file:///media/100%25%20wool%3F.sqlite?mode=ro&immutable=1",
            "file:relative?cache=shared&mode=memory&nolock=1&vfs=unix-dotfile",
            "file:////%C3%B6%23&=?psow=0&modeof=/other&key=a%26b%3Dc&x", "file://localhost/a?mode=rwc&psow=on#end",
            "file:?cache=private", "file:///%00",
        ].map { Array($0.utf8) }
    }

    static func run(_ input: [UInt8]) throws {
        let text = String(decoding: input, as: UTF8.self)
        guard let url = URL(string: text), let uri = try? DatabaseURI(url) else { return }
        require(!uri.path.utf8.contains(0), "a path with a NUL")
        let again = try URL(string: uri.description).map { try DatabaseURI($0) }
        require(again == uri, "'\(text)' is '\(uri)', which is '\(String(describing: again))'")
    }
}

/// The names of objects in the store of commands that travel (rule Z1).
enum StoreObjectTarget: FuzzTarget {
    static let name = "store-object"

    static func seeds() throws -> [[UInt8]] {
        let id = UUID(uuidString: "6F1A7C52-3D1B-4C5E-9A55-0C7D1F0B2E11")!
        let mark = StoreMark(sequence: 7, token: 0xABCD)
        let paths = [
            StoreObject.command("app.0000000001.0000abcd.000000000001.command", of: id),
            StoreObject.list(mark, of: id), StoreObject.claim(mark, of: id), "routes/\(id)/\(mark).outcomes",
            StoredSnapshot(number: 3, sum: 4, name: "widget.snapshot").path, "routes/\(id)/x.partial",
        ]
        return paths.map { Array($0.utf8) }
    }

    static func run(_ input: [UInt8]) throws {
        let text = String(decoding: input, as: UTF8.self)
        if let mark = StoreMark(text) { require(mark.description == text, "'\(text)' is taken for '\(mark)'") }
        let again: String
        switch StoreObject(path: text, size: 1).name {
        case .command(let route, let name): again = StoreObject.command(name, of: route)
        case .list(let route, let mark): again = StoreObject.list(mark, of: route)
        case .outcomes(let route, let mark): again = "routes/\(route)/\(mark).outcomes"
        case .claim(let collector, let mark): again = StoreObject.claim(mark, of: collector)
        case .snapshot(let snapshot): again = snapshot.path
        case .remains(let route): again = text.hasPrefix("routes/\(route)/") ? text : ""
        case .other: return
        }
        require(again == text, "'\(text)' is taken for '\(again)'")
    }
}
