import Foundation
import Roundtable
import Synchronization

/// A sender, which is this process and has no database open, and an owner, which is another one.
final class SharingRoundTrip {
    /// How long from the beginning of a submission on.
    struct Legs: Codable {
        /// Until it had returned.
        var submitted = Latencies()
        /// Until the sender had the outcome, where it asked for it.
        var applied = Latencies()
        /// Until the sender had the snapshot that tells of it, where it did not ask.
        var seen = Latencies()

        mutating func add(_ other: Legs) {
            submitted.add(other.submitted)
            applied.add(other.applied)
            seen.add(other.seen)
        }
    }

    private let outbox: CommandOutbox
    private let owner: ParticipantProcess
    private let following: Task<Void, Never>
    /// The last value that was seen, and when.
    private final class Seen: Sendable {
        let last = Mutex<(n: Int, time: Nanoseconds)>((0, 0))
    }
    private let board = Seen()
    private var random = SplitMix(state: 1)
    private var sent = 0

    init(isDurable: Bool, in folder: URL) throws {
        let place = try SharingPlace(in: folder, name: "trip-\(isDurable)", isDurable: isDurable)
        outbox = try place.outbox("sender")
        owner = try ParticipantProcess(.owner(place), name: "owner", in: folder)
        let file = place.snapshot()
        following = Task.detached { [board] in
            for await reading in file.values() {
                guard let value = reading.value else { continue }
                let now = Clock.now
                board.last.withLock { if value.n > $0.n { $0 = (value.n, now) } }
            }
        }
    }

    func end() {
        following.cancel()
        owner.end()
    }

    /// Submits so many commands, 2 to 5 ms apart, so that the owner sleeps before each.
    func run(_ count: Int) throws -> Legs {
        var legs = Legs()
        for number in 0..<count {
            Clock.sleep(until: Clock.now + 2_000_000 + random.next() % 3_000_000)
            sent += 1
            let began = Clock.now
            let submission = try outbox.submit(AddRow(sender: 1, n: sent))
            legs.submitted.record(Clock.now - began)
            let asks = number.isMultiple(of: 2)
            if asks {
                guard try submission.outcome(within: .seconds(10)) == .applied else { throw missed("outcome") }
                legs.applied.record(Clock.now - began)
            }
            let deadline = Clock.now + 10_000_000_000
            while board.last.withLock({ $0.n }) < sent {
                guard Clock.now < deadline else { throw missed("snapshot") }
                Clock.sleep(until: Clock.now + 500_000)
            }
            if !asks { legs.seen.record(board.last.withLock { $0.time } - began) }
        }
        return legs
    }

    private func missed(_ what: String) -> WrongResult {
        WrongResult(side: .ours, what: "no \(what) of command \(sent) within 10 s")
    }
}
