import Dispatch
import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Synchronization

/// Checks control block, change ring and history after a power cut, with a participant that meets the old companions, and with another one
/// beside it.
struct ParticipantsAfterCut {
    let folder: URL
    let notes: URL
    let durability: CommitDurability
    let seed: UInt64

    private static let commits = 3
    private typealias Finding = CrashStateChecker.Finding

    /// - returns: the first defect; nil if all is well.
    func finding() -> CrashStateChecker.Finding? {
        do {
            var options = SharedDatabase.Options()
            options.eventLog = .off
            options.durability = durability
            options.checkpointing = .automatic(threshold: 16)
            let database = try SharedDatabase.open(
                at: PowerCutPlaces.database(folder),
                schema: Ledger.schema(recordsHistory: true),
                as: "inspector",
                options: options
            )
            defer { try? database.close() }
            if let problem = try historyProblem(database) {
                return Finding(kind: .corrupt, text: "history: \(problem)")
            }
            // A record that is not published within a second is reported as "anything may have changed" (rule R5), which may be because
            // the writer was not scheduled. A ring that is damaged does so again.
            for attempt in 1...3 {
                let (problem, unrecorded) = try ringProblem(database)
                if let problem { return Finding(kind: .notUsable, text: "change ring: \(problem)") }
                if unrecorded == 0 { break }
                if attempt == 3 {
                    return Finding(
                        kind: .notUsable,
                        text: "change ring: \(unrecorded) commits without records, three times"
                    )
                }
            }
            if let problem = try controlBlockProblem() {
                return Finding(kind: .notUsable, text: "control block: \(problem)")
            }
            return nil
        } catch {
            return Finding(kind: .notUsable, text: "participants: \(error)")
        }
    }

    /// The history must have each commit once, in order, and no hole: it records no other table, and nothing of it is pruned.
    private func historyProblem(_ database: SharedDatabase) throws -> String? {
        try database.read { db in
            var last: Int64 = 0
            var sequence: Int64?
            var page = try DatabaseHistory.changes(since: nil, in: ["ledger"], from: db)
            while true {
                for change in page.changes {
                    guard let seq = change.id else { return "a change without a key" }
                    if let sequence, change.sequence != sequence + 1 {
                        return "change \(change.sequence) after \(sequence)"
                    }
                    sequence = change.sequence
                    switch change.operation {
                    case .insert where seq == last + 1: last = seq
                    case .update where seq <= last: break
                    default: return "\(change.operation) of row \(seq) after row \(last)"
                    }
                }
                guard page.hasMore else { break }
                page = try DatabaseHistory.changes(since: page.token, in: ["ledger"], from: db)
            }
            let commits = try Int64.fetchOne(db, sql: "SELECT coalesce(max(seq), 0) FROM ledger") ?? 0
            return last == commits ? nil : "it ends with row \(last), and the table with row \(commits)"
        }
    }

    /// The ring must report each commit of two processes, as the history has it.
    ///
    /// - returns: what is wrong; how many changes were reported without a record of one commit.
    private func ringProblem(_ database: SharedDatabase) throws -> (problem: String?, unrecorded: Int) {
        let log = Mutex<[DatabaseChange]>([])
        let queue = DispatchQueue(label: "changes after the power cut")
        let observation = try database.observeChanges(in: Table("ledger"), on: queue) { change in
            log.withLock { $0.append(change) }
        }
        defer { observation.cancel() }
        let token = try database.history.currentToken()
        var fleet = PowerCutFleet(folder: folder, notes: notes, durability: durability, seed: seed)
        defer { fleet.end() }
        fleet.journals = notes
        fleet.recordsHistory = true
        try fleet.start(.writer, 21, count: Self.commits)
        var random = SeededGenerator(seed: seed)
        for number in 1...Self.commits {
            _ = try database.write { try Ledger.commit($0, process: 0, number: number, &random) }
        }
        try eventually("the other writer ends", within: .seconds(60)) { try fleet.othersHaveEnded() }
        let history = try database.history.changes(since: token).changes
        let transactions = Set(history.map(\.transaction)).count
        guard transactions == 2 * Self.commits else {
            return ("\(2 * Self.commits) commits were made, and the history has \(transactions)", 0)
        }
        var problems: [String] = []
        try? eventually("the ring reports everything", within: .seconds(20)) {
            problems = Invariants.changes(log.withLock { $0 }, matching: history)
            return problems.isEmpty
        }
        return (problems.first, log.withLock { $0.count { $0.detail != .commit } })
    }

    /// The control block must be whole and have no dead participants. Nothing that the doctor sees may be an error.
    private func controlBlockProblem() throws -> String? {
        let url = PowerCutPlaces.database(folder)
        let block = try ControlBlock.open(forDatabaseAt: url.path, writable: false)
        guard block.isIntact, block.isInPlace else { return "it is not whole, or not in its place" }
        let last = block.lastSequence
        for sequence in (last - min(last, UInt64(2 * Self.commits)))..<last where block.record(sequence + 1) == nil {
            return "record \(sequence + 1) of \(last) cannot be read"
        }
        var others: [ParticipantRecord] = []
        try? eventually("dead participants are gone", within: .seconds(30)) {
            others = block.participants().filter { !$0.isProcess(getpid()) || $0.liveness != .alive }
            return others.isEmpty
        }
        guard others.isEmpty else { return "it still has \(others.map(\.name))" }
        let topics: Set<DatabaseDiagnosis.Topic> = [.controlBlock, .deadParticipant, .missingWALIndex, .notInWALMode]
        let findings = try DatabaseDiagnosis(ofDatabaseAt: url).findings.filter {
            $0.severity == .error || topics.contains($0.topic)
        }
        return findings.first.map { "the doctor finds \($0.topic.rawValue): \($0.message)" }
    }
}
