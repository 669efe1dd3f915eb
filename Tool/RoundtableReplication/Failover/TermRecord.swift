import Foundation
import Roundtable
import RoundtableFiles
import RoundtableKernel
import RoundtableToolSupport

/// The terms in which a database is the writer's, beside the database (rule D4).
struct TermRecord: Sendable {
    private struct Value: Codable, Sendable {
        /// By URL, without credentials.
        var terms: [String: Entry] = [:]
    }

    private struct Entry: Codable, Sendable {
        let term: ReplicaTerm
        /// The inode of the database. A copy has another one, and is not the writer's.
        let inode: UInt64
    }

    static let suffix = "-term"

    private let file: SnapshotFile<Value>
    private let path: String

    init(besideDatabaseAt path: String) {
        self.path = path
        var options = SnapshotFileOptions()
        options.durability = .machine
        file = SnapshotFile(at: URL(fileURLWithPath: path + Self.suffix), as: "litestream", options: options)
    }

    /// What the record says of a database at a URL; nil when the database never was the writer's there.
    ///
    /// - throws: `ToolError` when the record cannot be read.
    func term(at url: ReplicaURL) throws -> OwnTerm? {
        let key = Self.key(url)
        guard let entry = try value()?.terms.first(where: { Self.normalized($0.key) == key })?.value else { return nil }
        let inode = try System.status(ofFileAt: path).map { UInt64($0.st_ino) }
        return OwnTerm(term: entry.term, isOfThisFile: inode == entry.inode)
    }

    /// - parameter database: the file of the database, which may not have its name yet.
    func set(_ term: ReplicaTerm, at url: ReplicaURL, ofDatabaseAt database: String) throws {
        guard let status = try System.status(ofFileAt: database) else {
            throw ToolError("\(database): there is no such file.")
        }
        var value = try value() ?? Value()
        let key = Self.key(url)
        value.terms = value.terms.filter { Self.normalized($0.key) != key }
        value.terms[key] = Entry(term: term, inode: UInt64(status.st_ino))
        _ = try file.write(value) as SnapshotInfo
    }

    private func value() throws -> Value? {
        switch try file.read() {
        case .value(let value, _): return value
        case .absent: return nil
        case let other:
            throw ToolError(
                """
                \(path)-term: says which writer's term this database is of, and cannot be read (\(other)). Make it readable for this user; if it is \
                damaged, make this machine the writer again with 'roundtable promote --replace'.
                """
            )
        }
    }

    /// The key of a record that another version may have written, which shows more or less of the URL.
    private static func normalized(_ key: String) -> String { (try? ReplicaURL(key)).map(Self.key) ?? key }

    /// A `/` at the end of the path makes no difference.
    private static func key(_ url: ReplicaURL) -> String {
        let shown = url.shown
        let end = shown.firstIndex { $0 == "?" || $0 == "#" } ?? shown.endIndex
        var base = shown[..<end]
        while base.hasSuffix("/") { base.removeLast() }
        return String(base) + shown[end...]
    }
}

/// The term of a database, by its own record.
struct OwnTerm: Equatable, Sendable {
    let term: ReplicaTerm
    /// Whether the database is the file that the record was written for, and no copy of it.
    let isOfThisFile: Bool
}
