import ArgumentParser
import Foundation

/// What a process writes, over and over.
enum Workload: String, CaseIterable, Codable, ExpressibleByArgument {
    /// One row, at the end of the table: each commit changes the pages that the one before changed.
    case insert
    /// Random rows of many: the pages that commits change are all over the file, and a checkpoint has as many to copy.
    case update

    static let recordCount = 100_000

    /// - parameter rows: how many rows of `entry` it has from the beginning.
    func createDatabase(in folder: URL, name: String, rows: Int = 0) throws -> String {
        let path = try Fixture.create(in: folder, name: name, rows: rows)
        if self == .update { try Fixture.createRecords(Self.recordCount, in: path) }
        return path
    }

    /// Makes sure that what was acknowledged is there.
    ///
    /// - Parameters:
    ///   - commits: those that each author has made.
    ///   - rows: that each of them updated.
    func audit(_ path: String, _ side: Side, commits: [Int: Int], rows: Int) throws {
        switch self {
        case .insert:
            let found = try Fixture.rowCounts(path)
            for (author, committed) in commits.sorted(by: { $0.key < $1.key }) {
                let rows = found[author, default: 0]
                guard rows == committed else {
                    throw WrongResult(
                        side: side,
                        what: "participant \(author) committed \(committed) rows, and \(rows) are there"
                    )
                }
            }
        case .update:
            let (found, committed) = (try Fixture.updateCount(path), rows * commits.values.reduce(0, +))
            guard found == committed else {
                throw WrongResult(
                    side: side,
                    what: "updates of \(committed) rows were committed, and \(found) are there"
                )
            }
        }
    }
}

/// The transactions of one writing process.
struct WorkloadWriter {
    let workload: Workload
    let author: Int
    /// Of each update.
    let rows: Int
    private var random: SplitMix

    init(_ workload: Workload, author: Int, rows: Int = 1) {
        self.workload = workload
        self.author = author
        self.rows = rows
        // The same rows in each trial, and others for each process.
        random = SplitMix(state: UInt64(author))
    }

    /// - parameter inside: called in the transaction, before it writes.
    mutating func commit(_ contestant: any Contestant, inside: () -> Void) throws {
        switch workload {
        case .insert: try contestant.insert(author: author, inside: inside)
        case .update:
            let ids = (0..<rows).map { _ in Int64.random(in: 1...Int64(Workload.recordCount), using: &random) }
            try contestant.update(ids: ids, inside: inside)
        }
    }
}
