import Foundation
import RoundtableKernel

/// Translates what a `RingReader` reports into `DatabaseChange`s: table numbers become names, times of the monotonic clock become dates, and the
/// commit counter becomes a sequence that never goes back.
///
/// A translator is confined to one thread or queue at a time, like the table dictionary in it.
struct ChangeTranslator {
    private var dictionary: TableDictionary?
    /// The position that it has translated up to: the commit counter, and the corresponding `DatabaseChange.sequence`.
    private var counter: UInt32
    private var sequence: UInt64

    /// - Parameters:
    ///   - block: the control block whose ring is read; nil when there is none.
    ///   - counter: the commit counter where the reader begins.
    init(_ block: ControlBlock?, from counter: UInt32) {
        dictionary = block.map(TableDictionary.init)
        self.counter = counter
        sequence = UInt64(counter)
    }

    /// Continues with the ring of another control block. The sequence continues to grow.
    mutating func read(_ block: ControlBlock?) {
        dictionary = block.map(TableDictionary.init)
    }

    /// Sets the commit counter of the position, after the wal-index was rebuilt and nothing was committed.
    mutating func recount(from counter: UInt32) { self.counter = counter }

    /// Translates all that one `RingReader.read` has reported, in its order. Several reports in a row that anything may have changed
    /// become one change.
    ///
    /// - Parameters:
    ///   - reached: the commit counter that the reader has accounted for since.
    ///   - isOwn: whether the owner of a record is this participant, now or in an earlier seat (rule N5).
    mutating func changes(
        _ news: [RingReader.News],
        upTo reached: UInt32,
        isOwn: (OwnerWord) -> Bool
    ) -> [DatabaseChange] {
        let moment = Moment()
        var changes: [DatabaseChange] = []
        for (index, item) in news.enumerated() {
            switch item {
            case .change(let record):
                if record.state != .aside { count(to: record.counter) }
                let change = change(record, isOwn: isOwn(record.owner), at: moment)
                if !change.tables.isEmpty { changes.append(change) }
            case .anything:
                // Counts up to the commit before the next one that has a record.
                count(to: Self.firstCommit(in: news[(index + 1)...]).map { $0 &- 1 } ?? reached)
                if changes.last?.detail == .unrecorded { changes.removeLast() }
                changes.append(unrecorded(at: moment))
            }
        }
        return changes
    }

    private static func firstCommit(in news: ArraySlice<RingReader.News>) -> UInt32? {
        for case .change(let record) in news where record.state != .aside { return record.counter }
        return nil
    }

    /// Moves the position. SQLite may set the counter back, but the sequence only grows.
    private mutating func count(to reached: UInt32) {
        let distance = Int32(bitPattern: reached &- counter)
        sequence &+= distance >= 0 ? UInt64(distance) : 1
        counter = reached
    }

    private mutating func change(_ record: ChangeRecord, isOwn: Bool, at moment: Moment) -> DatabaseChange {
        DatabaseChange(
            sequence: sequence,
            author: record.author.isEmpty ? nil : record.author,
            pid: record.owner.pid,
            isOwn: isOwn,
            tables: tables(record.tables),
            time: moment.date(of: record.time),
            detail: .commit
        )
    }

    private func unrecorded(at moment: Moment) -> DatabaseChange {
        DatabaseChange(
            sequence: sequence,
            author: nil,
            pid: nil,
            isOwn: false,
            tables: .fullDatabase,
            time: moment.date,
            detail: .unrecorded
        )
    }

    /// The tables of a set. A number without a name, and a set without tables, stand for any table (rule R6).
    private mutating func tables(_ set: TableSet) -> DatabaseChange.Tables {
        guard !set.isUnknown, !set.isEmpty else { return .fullDatabase }
        var names: [String] = []
        for number in set.numbers {
            guard let name = dictionary?.name(number) else { return .fullDatabase }
            names.append(name)
        }
        return DatabaseChange.Tables(touching: names)
    }
}

/// One moment, on the monotonic clock and on the wall clock.
private struct Moment {
    let date = Date()
    private let ticks = MonotonicClock.now

    /// The date of a time of the monotonic clock. A time in the future counts as now, because the ring may hold garbage (rule G2).
    func date(of time: Nanoseconds) -> Date {
        date.addingTimeInterval(-TimeInterval(ticks.subtractingSaturating(time)) / 1e9)
    }
}
