import Foundation
import GRDB

/// One sender and one receiver, and what the receiver sees of the sender's events.
final class Signalling {
    /// One event, from the sender's point of view.
    struct Event {
        /// What the sender did: a commit, or to wake.
        let took: Nanoseconds
        /// From the sender's call until the receiver's code ran; nil: not within two seconds.
        let seenAfterCall: Nanoseconds?
        /// From the return of that call; negative when the receiver was faster.
        var seenAfterReturn: Int? { seenAfterCall.map { Int($0) - Int(took) } }
    }

    private let name: String
    /// nil: this process.
    let receiverPID: Int32?
    private let board: Scoreboard
    private let send: () throws -> Void
    private let close: () -> Void
    private var random = SplitMix(state: 1)
    private var misses = 0

    private init(
        _ name: String,
        _ receiverPID: Int32?,
        _ board: Scoreboard,
        send: @escaping () throws -> Void,
        close: @escaping () -> Void
    ) {
        self.name = name
        self.receiverPID = receiverPID
        self.board = board
        self.send = send
        self.close = close
    }

    /// A sender in this process, a receiver in another.
    ///
    /// - parameter side: with what rows are committed.
    convenience init(_ receiver: Receiver, from side: Side, in folder: URL) throws {
        let name = "\(receiver.rawValue)-\(UUID().uuidString)"
        let path = try Fixture.create(in: folder, name: name)
        let boardPath = folder.appendingPathComponent("\(name).board").path
        let board = try Scoreboard(boardPath)
        let contestant = try side.open(path)
        // Both files are there, and have been used.
        let process = try ParticipantProcess(["receiver", receiver.rawValue, path, boardPath], name: name, in: folder)
        do {
            try process.waitUntilReady()
        } catch {
            process.end()
            throw error
        }
        self.init(
            "receiver '\(receiver.rawValue)'",
            process.pid,
            board,
            send: receiver == .futex ? { board.ring() } : { try contestant.insert(author: 1) {} },
            close: {
                process.end()
                try? contestant.close()
            }
        )
    }

    /// A sender that observes its own database.
    convenience init(observing database: any DatabaseWriter, in folder: URL) throws {
        let board = try Scoreboard(folder.appendingPathComponent("\(UUID().uuidString).board").path)
        Receiver.observe(database, on: DispatchQueue(label: "receiver"), board)
        self.init(
            "an observation in this process",
            nil,
            board,
            send: {
                try database.write { db in
                    try db.cachedStatement(sql: Statements.insert).execute(arguments: [1, Statements.text])
                }
            },
            close: { try? database.close() }
        )
    }

    func end() { close() }

    /// Sends so many events, 2 to 5 ms apart, so that the receiver sleeps before each.
    func send(_ count: Int) throws -> [Event] {
        board.setActive(true)
        defer { board.setActive(false) }
        return try (0..<count).map { _ in
            Clock.sleep(until: Clock.now + 2_000_000 + random.next() % 3_000_000)
            let event = board.current + 1
            board.current = event
            let called = Clock.now
            try send()
            let returned = Clock.now
            let deadline = returned + 2_000_000_000
            while board.seen(event) == 0, Clock.now < deadline { Clock.sleep(until: Clock.now + 500_000) }
            let seen = board.seen(event)
            if seen == 0 { misses += 1 }
            guard misses < 3 else { throw WrongResult(side: .ours, what: "\(name) has missed 3 events") }
            return Event(took: returned - called, seenAfterCall: seen == 0 ? nil : seen - called)
        }
    }
}

extension [Signalling.Event] {
    var figures: Figures {
        let afterReturn = compactMap(\.seenAfterReturn).sorted()
        let afterCall = compactMap(\.seenAfterCall).sorted()
        func microseconds(_ time: Int?) -> Double { Double(time ?? 0) / 1e3 }
        return [
            "p50_us": microseconds(afterReturn.percentile(0.5)),
            "p99_us": microseconds(afterReturn.percentile(0.99)),
            "max_us": microseconds(afterReturn.last),
            "from_call_p50_us": (afterCall.percentile(0.5) ?? 0).microseconds,
            "from_call_p99_us": (afterCall.percentile(0.99) ?? 0).microseconds,
            "call_p50_us": (map(\.took).percentile(0.5) ?? 0).microseconds,
            "missed": Double(count - afterCall.count),
            "events": Double(count),
        ]
    }
}
