import Foundation
import RoundtableKernel

/// Turns what a `RingReader` tells into `Change`s: names for numbers, dates for ticks of the monotonic clock, and numbers
/// that go on counting where the commit counter does not.
///
/// Confined to one thread or queue at a time, like the table dictionary in it.
struct ChangeTranslator {
    private var dictionary: TableDictionary?
    /// Up to where it has translated: the commit counter, and the number that `Change.sequence` makes of it.
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

    /// Goes on with the ring of another control block; the numbers go on too.
    mutating func read(_ block: ControlBlock?) {
        dictionary = block.map(TableDictionary.init)
    }

    /// The counter says something else now, and nothing has happened.
    mutating func recount(from counter: UInt32) { self.counter = counter }

    /// Translates all that one `RingReader.read` has told, in its order. What has no record is told once where the reader
    /// told it several times in a row.
    ///
    /// - Parameters:
    ///   - reached: the commit counter that the reader has accounted for since.
    ///   - isOwn: whether an owner of records is this participant, now or in an earlier seat (rule N5).
    mutating func changes(
        _ news: [RingReader.News],
        upTo reached: UInt32,
        isOwn: (OwnerWord) -> Bool
    ) -> [Change] {
        let moment = Moment()
        var changes: [Change] = []
        for (index, item) in news.enumerated() {
            switch item {
            case .change(let record):
                if record.state != .aside { count(to: record.counter) }
                let change = change(record, isOwn: isOwn(record.owner), at: moment)
                if !change.tables.isEmpty { changes.append(change) }
            case .anything:
                // Up to the commit before the next one that is known.
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

    /// SQLite may set the counter back; numbers of changes only grow.
    private mutating func count(to reached: UInt32) {
        let distance = Int32(bitPattern: reached &- counter)
        sequence &+= distance >= 0 ? UInt64(distance) : 1
        counter = reached
    }

    private mutating func change(_ record: ChangeRecord, isOwn: Bool, at moment: Moment) -> Change {
        Change(
            sequence: sequence,
            author: record.author.isEmpty ? nil : record.author,
            pid: record.owner.pid,
            isOwn: isOwn,
            tables: tables(record.tables),
            time: moment.date(of: record.time),
            detail: .commit
        )
    }

    private func unrecorded(at moment: Moment) -> Change {
        Change(
            sequence: sequence,
            author: nil,
            pid: nil,
            isOwn: false,
            tables: .fullDatabase,
            time: moment.date,
            detail: .unrecorded
        )
    }

    /// A number without a name, and a set without tables, may be any (rule R6).
    private mutating func tables(_ set: TableSet) -> Change.Tables {
        guard !set.isUnknown, !set.isEmpty else { return .fullDatabase }
        var names: [String] = []
        for number in set.numbers {
            guard let name = dictionary?.name(number) else { return .fullDatabase }
            names.append(name)
        }
        return Change.Tables(touching: names)
    }
}

/// The same moment on the monotonic clock and on the wall.
private struct Moment {
    let date = Date()
    private let ticks = MonotonicClock.now

    /// Whoever may write the ring may write garbage there: a time in the future is now (rule G2).
    func date(of time: Nanoseconds) -> Date {
        date.addingTimeInterval(-TimeInterval(ticks.subtractingSaturating(time)) / 1e9)
    }
}
