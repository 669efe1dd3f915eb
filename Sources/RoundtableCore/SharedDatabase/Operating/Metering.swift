import GRDB
import RoundtableKernel

/// Receives the durations of accesses, on the thread of the access, after it has released its locks.
package protocol AccessMeter: Sendable {
    /// A read has ended, by ``SharedDatabase/read(file:line:_:)``.
    ///
    /// - parameter duration: since the request for a connection.
    func didRead(_ duration: Nanoseconds, _ failure: (any Error)?)

    /// A write has ended. Shared commits count as one.
    func didWrite(_ duration: WriteDuration, _ failure: (any Error)?)
}

/// How long a write took, in nanoseconds.
package struct WriteDuration: Sendable {
    /// The wait for the turn and for what precedes it; nil if the write did not get the turn.
    package let waited: Nanoseconds?
    /// All of it, since the write was admitted.
    package let total: Nanoseconds
    package let hasCommitted: Bool
}

extension Hook<any AccessMeter> {
    func beginRead() -> MeasuredRead? {
        current.map { MeasuredRead(meter: $0, began: MonotonicClock.now) }
    }
}

struct MeasuredRead {
    let meter: Hook<any AccessMeter>.Following
    let began: Nanoseconds

    func end(_ failure: (any Error)?) {
        meter.follower.didRead(MonotonicClock.now.subtractingSaturating(began), failure)
    }
}

/// A write that is being measured.
struct MeasuredWrite {
    /// When the write got the turn; nil: it did not.
    var turnBegan: Nanoseconds?
    var hasCommitted = false
}

extension AccessMeter {
    func didWrite(_ measured: MeasuredWrite, since began: Nanoseconds, _ failure: (any Error)?) {
        let duration = WriteDuration(
            waited: measured.turnBegan?.subtractingSaturating(began),
            total: MonotonicClock.now.subtractingSaturating(began),
            hasCommitted: measured.hasCommitted
        )
        didWrite(duration, failure)
    }
}

extension SharedDatabase {
    /// The reader connections at this moment, the reads that wait for one, and how many there may be.
    package var readerCounts: (idle: Int, used: Int, waiting: Int, maximum: Int) {
        let (idle, used, waiting) = readers.counts
        return (idle, used, waiting, max(1, options.maximumReaderCount))
    }

    /// All participants, from the control block of this one; empty without one.
    package var participants: [ParticipantStatus] {
        let files = FileStamps(ofDatabaseAt: path)
        return longReads.controlBlock?.participants().map { ParticipantStatus($0, in: files) } ?? []
    }

    /// The migrations of other programs that this one does not know, as it was last reported.
    package var unknownMigrations: [String] { writer.watch?.reported ?? [] }

    package var newerSchemaPolicy: NewerSchemaPolicy { options.newerSchemaPolicy }

    /// The length, in frames, that the WAL should not exceed.
    package var longestWAL: Int { (CheckpointLimits(options.checkpointing) ?? .default).longest }

    /// The number of turns that this participant has taken, and its longest wait for one in nanoseconds; nil without a slot.
    package var turns: (taken: UInt64, longestWait: UInt64)? {
        guard let participant = seat.participant else { return nil }
        let record = participant.block.participants().first { $0.slot == participant.slot.index }
        return record.map { ($0.turnsTaken, $0.longestWait) }
    }
}
