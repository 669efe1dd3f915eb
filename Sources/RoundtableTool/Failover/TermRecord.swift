import Foundation
import Roundtable
import RoundtableFiles

/// The terms in which a database is the writer's, beside the database (rule D4).
struct TermRecord: Sendable {
    private struct Value: Codable, Sendable {
        /// By URL, without credentials.
        var terms: [String: ReplicaTerm] = [:]
    }

    private let file: SnapshotFile<Value>

    init(besideDatabaseAt path: String) {
        var options = SnapshotFileOptions()
        options.durability = .machine
        file = SnapshotFile(at: URL(fileURLWithPath: path + "-term"), as: "litestream", options: options)
    }

    /// nil when the database never was the writer's at that URL, as far as is known.
    func term(at url: ReplicaURL) throws -> ReplicaTerm? {
        guard case .value(let value, _) = try file.read() else { return nil }
        return value.terms[url.shown]
    }

    func set(_ term: ReplicaTerm, at url: ReplicaURL) throws {
        var value = Value()
        if case .value(let old, _) = try file.read() { value = old }
        value.terms[url.shown] = term
        _ = try file.write(value) as SnapshotInfo
    }
}
