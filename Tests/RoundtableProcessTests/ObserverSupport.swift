import Foundation
import GRDB
import RoundtableKernel
import RoundtableTestSupport
import Testing

/// A peer that observes, and what it has received so far.
final class Observer {
    let peer: Peer
    private let log: ObservationLogReader

    init(_ peer: Peer, logPath: String) {
        self.peer = peer
        log = ObservationLogReader(path: logPath)
    }

    var changes: [ObservedChange] { get throws { try updated().changes } }
    var values: [ObservedValue] { get throws { try updated().values } }
    var errors: [String] { get throws { try updated().errors } }

    private func updated() throws -> ObservationLogReader {
        try log.update()
        return log
    }

    /// Waits for a value that shows this row, or a later one.
    ///
    /// - returns: when it was received.
    @discardableResult
    func waitForValue(_ row: Int, within timeout: Duration = .seconds(10)) throws -> Nanoseconds {
        var time: Nanoseconds = 0
        try eventually("\(peer) learns of row \(row), not only of \(try values.last?.lastRow ?? 0)", within: timeout) {
            guard peer.process.isRunning else { throw TestKitError("\(peer) ended: \(peer.process.errorText)") }
            let values = try values
            guard let last = values.last, last.lastRow >= row else { return false }
            time = values.first { $0.lastRow >= row }?.time ?? 0
            return true
        }
        return time
    }

    /// Waits until what was just committed is reported, as value and as change, which takes a second at most.
    func expectNotification(_ row: Int, in trial: TimedTrial) throws {
        let start = MonotonicClock.now
        try waitForValue(row)
        try waitForChange(row)
        trial.expect("\(peer) is notified of row \(row)", Double(MonotonicClock.now - start) / 1e6, atMost: 1000)
    }

    /// Waits until all changes up to this one are reported: a slow observer may have read their rows long before.
    func waitForEnd(sequence: UInt64, within timeout: Duration = .seconds(60)) throws {
        try eventually("\(peer) is notified of change \(sequence), the last", within: timeout) {
            guard peer.process.isRunning else { throw TestKitError("\(peer) ended: \(peer.process.errorText)") }
            return try changes.last?.sequence ?? 0 >= sequence
        }
    }

    /// Waits for a change after which this row, or a later one, could be read.
    func waitForChange(_ row: Int, within timeout: Duration = .seconds(10)) throws {
        try eventually("\(peer) is notified of a change after row \(row)", within: timeout) {
            guard peer.process.isRunning else { throw TestKitError("\(peer) ended: \(peer.process.errorText)") }
            return try changes.last?.readable ?? 0 >= row
        }
    }
}

extension PeerFleet {
    /// Opens the database in a new peer that observes it.
    func spawnObserver(
        _ name: String,
        readOnly: Bool = false,
        user: UInt32? = nil,
        asSequence: Bool = false,
        pause: Double = 0,
        options: PeerOptions = PeerOptions()
    ) throws -> Observer {
        let peer = try spawn(name, user: user)
        let opening = self.opening(peer, options: options)
        try peer.call(readOnly ? .openReadOnly(opening, waiting: 0) : .open(opening))
        let path = peer.progressPath + ".log"
        try peer.call(.observe(Observing(log: path, asSequence: asSequence, pause: pause)))
        let observer = Observer(peer, logPath: path)
        // Every commit from now on must be reported.
        try observer.waitForValue(0)
        return observer
    }

    /// All rows: the author of each, in the order of the commits. (No process deletes, and each transaction inserts one.)
    func authors() throws -> [String] {
        let queue = try DatabaseQueue(path: database.path)
        defer { try? queue.close() }
        let rows = try queue.read { try Row.fetchAll($0, sql: "SELECT id, author FROM entry ORDER BY id") }
        for (index, row) in rows.enumerated() where row["id"] != index + 1 {
            throw TestKitError("row \(index + 1) has number \(row["id"] as Int)")
        }
        return rows.map { $0["author"] }
    }
}

/// The changes that an observer has received, counted by how exact they are, and its values.
struct ReceivedCounts: CustomStringConvertible {
    var exact = 0
    var several = 0
    var unrecorded = 0
    var values = 0
    var description: String { "\(exact) exact, \(several) several, \(unrecorded) unrecorded, \(values) values" }
}

extension Observer {
    /// What must hold of everything that an observer has received.
    ///
    /// Each commit inserts one row, so the difference between a change's sequence and the row of its commit is the same all
    /// the time; it is taken from a change whose row is known.
    ///
    /// - Parameters:
    ///   - authors: those of all rows.
    ///   - offset: sequence minus row.
    func expectSound(
        authors: [String],
        offset: UInt64,
        pids: [String: Int32],
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> ReceivedCounts {
        var counts = ReceivedCounts()
        var previous: UInt64?
        var faults: [String] = []
        for change in try changes {
            let row = Int(change.sequence) - Int(offset)
            // No observer is notified of a change before it can be read.
            if change.readable < row { faults.append("reported before it could be read: \(change)") }
            switch change.detail {
            case "commit":
                counts.exact += 1
                // No commit is left out in silence.
                if let previous, change.sequence != previous + 1 { faults.append("\(change) after \(previous)") }
                // What is reported as exact is exact.
                let author = authors.indices.contains(row - 1) ? authors[row - 1] : "nobody"
                if change.author != author { faults.append("\(change), but row \(row) is of \(author)") }
                if change.pid != pids[author] { faults.append("\(change), but \(author) is another") }
                if change.tables != ["entry"] { faults.append("tables: \(change)") }
                if change.isOwn != (author == peer.name) { faults.append("own: \(change)") }
            case "several":
                counts.several += 1
                if let previous, change.sequence <= previous { faults.append("\(change) after \(previous)") }
                if change.tables != ["entry"] { faults.append("tables: \(change)") }
            default:
                counts.unrecorded += 1
                if let previous, change.sequence < previous { faults.append("\(change) after \(previous)") }
                if change.tables != ["*"] { faults.append("tables: \(change)") }
            }
            previous = change.sequence
        }
        let first = faults.prefix(5).joined(separator: "\n")
        #expect(faults.count == 0, "\(peer):\n\(first)", sourceLocation: sourceLocation)
        try expectFinalState(rows: authors.count, sourceLocation: sourceLocation)
        counts.values = try values.count
        return counts
    }

    /// The last value and change received are the final state, and nothing went wrong.
    func expectFinalState(rows: Int, sourceLocation: SourceLocation = #_sourceLocation) throws {
        // The two are reported one after the other.
        try waitForValue(rows)
        try waitForChange(rows)
        #expect(try changes.last?.readable == rows, "\(peer)", sourceLocation: sourceLocation)
        #expect(try values.last?.lastRow == rows, "\(peer)", sourceLocation: sourceLocation)
        #expect(try errors == [], "\(peer)", sourceLocation: sourceLocation)
        let received = try values.map(\.lastRow)
        #expect(received == received.sorted(), "\(peer): values went back", sourceLocation: sourceLocation)
    }
}

/// Programs that do not know us.
enum Program {
    static let shell = find("sqlite3")
    static let python = find("python3")

    private static func find(_ name: String) -> URL? {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            .map { URL(fileURLWithPath: String($0)).appendingPathComponent(name) }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) }
    }
}
