import Foundation
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableKernel
import RoundtableToolSupport

/// Looks at a database again and again, from outside, and makes lines of it. It is confined to one thread.
///
/// There are three kinds of looks: at the turns, often; at the whole state; and at sizes. Each is repeated later when it takes much processor
/// time, so that it never needs more than a fixed share of one processor.
struct Recorder {
    private let url: URL
    private let turnsEvery: Nanoseconds
    private let every: Nanoseconds

    private var source: TopSource
    private var model: TopModel
    private var path: String?
    private var sizes: TableSizes?
    private var nextTurns: Nanoseconds = 0
    private var nextSample: Nanoseconds = 0
    private var nextSizes: Nanoseconds = 0
    private var lastTurns: (time: Nanoseconds, taken: [Key: Int])?
    private var wasQuiet = false
    /// Why the last look at the whole state failed; nil when it did not.
    private(set) var problem: String?

    private struct Key: Hashable {
        let pid: Int32
        let author: String
        let joinedAt: Date

        init(_ participant: ParticipantStatus) {
            (pid, author, joinedAt) = (participant.pid, participant.author, participant.joinedAt)
        }
    }

    /// A look is repeated after `share` times the processor time that it took, at the earliest.
    private static let share: Nanoseconds = 50
    private static let sizesShare: Nanoseconds = 200
    private static let sizesInterval: Nanoseconds = 5_000_000_000

    init(_ url: URL, every: Double, turnsEvery: Double) {
        self.url = url
        self.every = Nanoseconds(every * 1e9)
        self.turnsEvery = Nanoseconds(turnsEvery * 1e9)
        source = TopSource(url)
        model = TopModel(interval: every)
    }

    var header: String {
        RecordLine.text(
            RecordLine.Header(
                time: Date().timeIntervalSince1970,
                path: url.path,
                every: Double(every) / 1e9,
                turnsEvery: Double(turnsEvery) / 1e9
            )
        )
    }

    /// When the next look is due, in ns of the monotonic clock.
    var deadline: Nanoseconds { min(nextTurns, nextSample) }

    /// Makes the looks that are due.
    mutating func look() -> [String] {
        var lines: [String] = []
        if MonotonicClock.now >= nextTurns, let line = turns() { lines.append(line) }
        if MonotonicClock.now >= nextSample, let line = sample() { lines.append(line) }
        return lines
    }

    // MARK: The turns

    private mutating func turns() -> String? {
        let now = Moment()
        // Neither the database nor the change ring is read, so that this can be repeated many times a second.
        let block = path.flatMap { try? ControlBlock.open(forDatabaseAt: $0, writable: false) }
        nextTurns = Self.next(after: now, atLeast: turnsEvery, share: Self.share)
        guard let participants = block?.participants().map({ ParticipantStatus($0) }) else {
            lastTurns = nil
            return nil
        }
        let before = lastTurns
        // Another process may have damaged the numbers, and they are as large as they can be then.
        let taken = Dictionary(
            participants.map { (Key($0), $0.turnsTaken) },
            uniquingKeysWith: { $0.addingSaturating($1) }
        )
        lastTurns = (now.time, taken)
        // A participant that was not there before has taken all its turns since then.
        guard let before else { return nil }
        let active = participants.compactMap { participant in
            Self.line(participant, turns: participant.turnsTaken - (before.taken[Key(participant)] ?? 0))
        }
        defer { wasQuiet = active.isEmpty }
        if active.isEmpty, wasQuiet { return nil }
        return RecordLine.text(
            RecordLine.Turns(
                time: Date().timeIntervalSince1970,
                interval: Double(now.time.subtractingSaturating(before.time)) / 1e9,
                participants: active
            )
        )
    }

    /// - returns: nil for a participant that did nothing.
    private static func line(_ participant: ParticipantStatus, turns: Int) -> RecordLine.Turns.Participant? {
        let isWaiting = participant.waiting != nil && !participant.hasTurn
        guard turns > 0 || isWaiting || participant.hasTurn || participant.liveness != .alive else { return nil }
        return RecordLine.Turns.Participant(
            pid: participant.pid,
            author: participant.author,
            turns: turns > 0 ? turns : nil,
            hasTurn: participant.hasTurn ? true : nil,
            waiting: isWaiting ? participant.waiting?.inSeconds : nil,
            writing: participant.writing?.inSeconds,
            liveness: participant.liveness == .alive ? nil : participant.liveness
        )
    }

    // MARK: The state

    /// - returns: nil for a problem that the last look has met, too.
    private mutating func sample() -> String? {
        let now = Moment()
        defer { nextSample = Self.next(after: now, atLeast: every, share: Self.share) }
        let time = Date().timeIntervalSince1970
        do {
            model.add(try source.sample())
        } catch {
            (path, sizes, nextSizes) = (nil, nil, 0)
            let message = ToolError.line(for: error)
            if message == problem { return nil }
            problem = message
            return RecordLine.text(RecordLine.Problem(time: time, message: message))
        }
        problem = nil
        guard let top = TopJSON(model) else { preconditionFailure("a sample was added") }
        path = top.status.path
        if MonotonicClock.now >= nextSizes {
            let begin = Moment()
            sizes = top.status.isEncrypted ? nil : TableSizes(url)
            nextSizes = Self.next(after: begin, atLeast: Self.sizesInterval, share: Self.sizesShare)
        }
        return RecordLine.text(RecordLine.Sample(time: time, top: top, sizes: sizes))
    }

    /// The beginning of a look.
    private struct Moment {
        let time = MonotonicClock.now
        /// Of this process, in units of `CLOCKS_PER_SEC`. Time in which other processes run is no part of it.
        let processor = clock()
    }

    private static func next(after begin: Moment, atLeast interval: Nanoseconds, share: Nanoseconds) -> Nanoseconds {
        let used = Nanoseconds(max(0, clock() - begin.processor)) * (1_000_000_000 / Nanoseconds(CLOCKS_PER_SEC))
        return max(begin.time + interval, MonotonicClock.now + share * used)
    }
}
