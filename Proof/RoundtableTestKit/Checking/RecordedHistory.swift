import Foundation

/// The recorded transactions of several workers.
public struct RecordedHistory: Sendable {
    public var transactions: [TransactionRecord]

    public init(_ transactions: [TransactionRecord] = []) { self.transactions = transactions }

    /// Reads the journals of a folder.
    ///
    /// A transaction that began and has no end in its journal has the outcome `unknown`.
    ///
    /// - throws: `RecordedHistoryError` when a line other than the last one of its file cannot be read; errors of the file system.
    public init(journalsIn folder: URL) throws {
        transactions = []
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        for name in names where name.hasSuffix(Journal.suffix) {
            guard let worker = Int(name.dropLast(Journal.suffix.count)) else { continue }
            let url = folder.appendingPathComponent(name)
            try transactions.append(
                contentsOf: Journal.records(in: Data(contentsOf: url), worker: worker, path: url.path)
            )
        }
    }

    /// The moment from which the texts of a report count.
    var start: Int64 { transactions.lazy.map(\.began).min() ?? 0 }
}

/// A journal that is not what a worker writes.
public struct RecordedHistoryError: Error, Equatable, CustomStringConvertible {
    public let description: String
}
