import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport
import Synchronization

extension PeerSession {
    /// Writes in many tasks until a command arrives.
    ///
    /// - parameter excusing: whether a write that was to be committed may fail with this error. It is called in any thread.
    /// - returns: the number of writes.
    func writeShared(
        _ load: SharedWriteLoad,
        as author: String? = nil,
        in database: SharedDatabase,
        excusing: @escaping @Sendable (any Error) -> Bool = { _ in false }
    ) throws -> Int {
        let journal = try SharedWriteJournal(appendingTo: load.journal)
        let writing = SharedWriting(database, author: author ?? self.author, journal, excusing)
        let ended = DispatchGroup()
        for task in 0..<load.tasks {
            ended.enter()
            Task.detached {
                var random = SeededGenerator(seed: load.seed &+ UInt64(task))
                while !writing.isOver {
                    await writing.write(&random)
                    if let pause = load.pauseMilliseconds { try? await Task.sleep(for: .milliseconds(pause)) }
                }
                ended.leave()
            }
        }
        while !channel.hasInput { usleep(1000) }
        writing.end()
        ended.wait()
        if let problem = writing.problem { throw TestKitError(problem) }
        return writing.count
    }
}

/// The tasks of one load.
private final class SharedWriting: Sendable {
    private enum Fate: CaseIterable {
        case committed, thrown, rolledBack, danglingReference, endedTransaction, caughtError, cancelled
    }

    private struct Thrown: Error {}

    private let database: SharedDatabase
    private let author: String
    private let journal: SharedWriteJournal
    private let excuses: @Sendable (any Error) -> Bool
    private let lastNumber = Atomic(0)
    private let hasEnded = Atomic(false)
    private let firstProblem = Mutex<String?>(nil)

    init(
        _ database: SharedDatabase,
        author: String,
        _ journal: SharedWriteJournal,
        _ excuses: @escaping @Sendable (any Error) -> Bool
    ) {
        self.excuses = excuses
        self.database = database
        self.author = author
        self.journal = journal
    }

    var isOver: Bool { hasEnded.load(ordering: .relaxed) }
    var count: Int { lastNumber.load(ordering: .relaxed) }
    var problem: String? { firstProblem.withLock { $0 } }

    func end() { hasEnded.store(true, ordering: .relaxed) }

    func write(_ random: inout SeededGenerator) async {
        let number = lastNumber.add(1, ordering: .relaxed).newValue
        let fate: Fate =
            Int.random(in: 0..<3, using: &random) > 0 ? .committed : .allCases.randomElement(using: &random)!
        let delay = UInt64.random(in: 0...300_000, using: &random)
        // A closure that ends transactions would have its own from then on. Each of them has another line of code here, so that writes go on
        // to lose their transactions.
        let endsTransactions = fate == .rolledBack || fate == .endedTransaction
        let line = endsTransactions ? 1_000_000 + UInt(number) : #line
        let task = Task { try await database.write(line: line) { db in try run(fate, number, db) } }
        if fate == .cancelled {
            try? await Task.sleep(nanoseconds: delay)
            task.cancel()
        }
        do {
            switch await task.result {
            case .success:
                if [.thrown, .rolledBack, .danglingReference, .endedTransaction].contains(fate) {
                    throw TestKitError("\(author): write \(number), which was \(fate), succeeded")
                }
                try journal.record(.acknowledged, of: number)
            case .failure(let error):
                let isLost = (error as? DatabaseError)?.extendedResultCode == .SQLITE_ABORT_ROLLBACK
                if !isLost, !excuses(error), [.committed, .caughtError].contains(fate) {
                    throw TestKitError("\(author): write \(number), which was \(fate), failed: \(error)")
                }
                try journal.record(.failed, of: number)
            }
        } catch {
            firstProblem.withLock { $0 = $0 ?? "\(error)" }
            try? journal.record(.wrong, of: number)
        }
    }

    private func run(_ fate: Fate, _ number: Int, _ db: Database) throws {
        try db.cachedStatement(sql: "INSERT INTO sharedWrite (author, n) VALUES (?, ?)")
            .execute(arguments: [author, number])
        switch fate {
        case .committed, .cancelled: break
        case .thrown: throw Thrown()
        case .rolledBack:
            try db.execute(
                sql: "INSERT OR ROLLBACK INTO sharedWrite (id, author, n) VALUES (last_insert_rowid(), 'x', 0)"
            )
        case .danglingReference:
            try db.execute(sql: "INSERT INTO sharedWriteChild VALUES (-1)")
        case .endedTransaction:
            try db.execute(sql: "ROLLBACK")
        case .caughtError:
            try? db.execute(sql: "INSERT INTO sharedWrite (author, n) VALUES (NULL, 0)")
        }
    }
}
