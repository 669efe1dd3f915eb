import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport

/// Checks what a campaign left in the database, each row once, and deletes the rows that it has checked twice.
final class CampaignVerifier {
    enum Finding { case lost, corrupt, anomaly }

    /// The state of a process that has ended, until it is checked.
    struct Ended {
        var work: CampaignWork
        var acknowledged: Int
    }

    private let database: URL
    private let note: (Finding, String) -> Void
    private var highest: [String: Int] = [:]
    private var ended: [Ended] = []
    /// The authors of shared writes that were checked, and not yet deleted.
    private var checkedAuthors: [String] = []
    private var (verified, before, pruned) = (0, 0, 0)
    private var (mirrored, lastMirrored, mirrorBefore) = (0, 0, 0)
    private var (applied, lastApplied, appliedBefore) = (0, 0, 0)
    private var (handedOut, handedAcknowledged) = (0, 0)
    private(set) var (commits, sharedWrites, handed) = (0, 0, 0)
    var commandsApplied: Int { lastApplied }
    var lastEntry: Int { verified }
    var lastMirror: Int { lastMirrored }

    init(database: URL, note: @escaping (Finding, String) -> Void) {
        self.database = database
        self.note = note
    }

    func end(_ work: CampaignWork, acknowledged: Int) { ended.append(Ended(work: work, acknowledged: acknowledged)) }

    /// Checks all that was committed since the last check.
    ///
    /// - parameter living: the numbers of acknowledged transactions of the writers that run, read before this call.
    func check(living: [String: Int]) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(1000)
        let queue = try DatabaseQueue(path: database.path, configuration: configuration)
        defer { try? queue.close() }
        let gone = ended
        ended = []
        try queue.read { db in
            let integrity = try String.fetchAll(db, sql: "PRAGMA integrity_check")
            if integrity != ["ok"] { note(.corrupt, "integrity_check: \(integrity.prefix(3))") }
            try checkEntries(db, living: living, gone: gone)
            try checkMirror(db)
            try checkApplied(db)
            for one in gone where one.work.role == .sharedWriter { try checkSharedWrites(db, one.work) }
            for problem in try DerivedTableWorld.discrepancies(db) { note(.corrupt, "derived table \(problem)") }
        }
        for one in gone {
            if one.work.role == .consumer { try checkJournal(one.work.journal) }
            for path in [one.work.journal, one.work.progress] { try? FileManager.default.removeItem(atPath: path) }
            highest[one.work.author] = nil
        }
        checkedAuthors += gone.filter { $0.work.role == .sharedWriter }.map(\.work.author)
        do {
            try prune(queue)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            // The next check deletes the rows. If a process holds the lock for ever, the campaign notices that others are stuck.
        }
    }

    // MARK: Parts

    private func checkEntries(_ db: Database, living: [String: Int], gone: [Ended]) throws {
        let row = try Row.fetchOne(
            db,
            sql:
                "SELECT coalesce(max(id), 0), count(*) FILTER (WHERE id > ?), count(*) FILTER (WHERE id <= ?) FROM entry",
            arguments: [verified, verified]
        )!
        let (last, fresh, old) = (row[0] as Int, row[1] as Int, row[2] as Int)
        if fresh != last - verified { note(.lost, "\(last - verified - fresh) rows between \(verified) and \(last)") }
        if old != verified - pruned {
            note(.lost, "\(verified - pruned - old) rows that were there before \(verified)")
        }
        let sql = """
            SELECT author, n, count(*), count(DISTINCT part) FROM entry WHERE id > ? GROUP BY author, n ORDER BY author, n
            """
        for row in try Row.fetchAll(db, sql: sql, arguments: [verified]) {
            let (author, n, count, parts) = (row[0] as String, row[1] as Int, row[2] as Int, row[3] as Int)
            let expected = highest[author, default: 0] + 1
            if n != expected { note(.anomaly, "\(author): transaction \(n) after \(expected - 1)") }
            if count != CampaignWorld.rows(ofTransaction: n) || parts != count {
                note(.anomaly, "\(author): transaction \(n) has \(count) rows with \(parts) parts")
            }
            highest[author] = n
            commits += 1
        }
        for (author, acknowledged) in living where highest[author, default: 0] < acknowledged {
            note(.lost, "\(author): acknowledged \(acknowledged), found \(highest[author, default: 0])")
        }
        for one in gone where one.work.role == .writer {
            let found = highest[one.work.author, default: 0]
            if found < one.acknowledged {
                note(.lost, "\(one.work.author): acknowledged \(one.acknowledged), found \(found)")
            } else if found > one.acknowledged + 1 {
                note(.anomaly, "\(one.work.author): acknowledged \(one.acknowledged), found \(found)")
            }
        }
        (before, verified) = (verified, last)
    }

    private func checkMirror(_ db: Database) throws {
        let rows = try Row.fetchCursor(
            db,
            sql: "SELECT id, entry FROM mirror WHERE id > ? ORDER BY id",
            arguments: [mirrored]
        )
        mirrorBefore = mirrored
        while let row = try rows.next() {
            let (id, entry) = (row[0] as Int, row[1] as Int)
            if entry != lastMirrored + 1 { note(.anomaly, "history: row \(entry) after \(lastMirrored)") }
            (mirrored, lastMirrored) = (id, entry)
        }
    }

    private func checkApplied(_ db: Database) throws {
        let rows = try Row.fetchCursor(
            db,
            sql: "SELECT id, n FROM applied WHERE id > ? ORDER BY id",
            arguments: [applied]
        )
        appliedBefore = applied
        while let row = try rows.next() {
            let (id, n) = (row[0] as Int, row[1] as Int)
            if n != lastApplied + 1 { note(.anomaly, "outbox: command \(n) after \(lastApplied)") }
            (applied, lastApplied) = (id, n)
        }
        if try db.tableExists("roundtable_outbox_dead") {
            let dead = try Int.fetchOne(db, sql: "SELECT count(*) FROM roundtable_outbox_dead") ?? 0
            if dead > 0 { note(.anomaly, "outbox: \(dead) dead letters") }
        }
    }

    private func checkSharedWrites(_ db: Database, _ work: CampaignWork) throws {
        let numbers = try Int.fetchAll(db, sql: "SELECT n FROM sharedWrite WHERE author = ?", arguments: [work.author])
        let found = Set(numbers)
        sharedWrites += numbers.count
        if found.count != numbers.count { note(.anomaly, "\(work.author): a shared write was committed twice") }
        for (outcome, number) in try SharedWriteJournal.read(work.journal) {
            switch outcome {
            case .acknowledged where !found.contains(number): note(.lost, "\(work.author): shared write \(number)")
            case .failed where found.contains(number):
                note(.anomaly, "\(work.author): the failed shared write \(number) is there")
            case .wrong: note(.anomaly, "\(work.author): shared write \(number) had a wrong outcome")
            default: break
            }
        }
    }

    /// Checks what one consumer was handed. Only what was not acknowledged may come again.
    private func checkJournal(_ journal: String) throws {
        var previous: Int?
        for line in try ConsumerJournal.read(journal) {
            switch line {
            case .begin: previous = nil
            case .acknowledged: handedAcknowledged = previous ?? handedAcknowledged
            case .change(let id, _):
                let id = Int(id)
                handed += 1
                if let previous {
                    if id != previous + 1 { note(.anomaly, "consumer: row \(id) after \(previous)") }
                } else if id <= handedAcknowledged || id > handedOut + 1 {
                    note(
                        .anomaly,
                        "consumer: a new life begins with \(id), after \(handedAcknowledged) to \(handedOut)"
                    )
                }
                handedOut = max(handedOut, id)
                previous = id
            }
        }
    }

    /// Deletes the rows that the check before this one has seen, but never the last row of a table.
    private func prune(_ queue: DatabaseQueue) throws {
        let through = min(before, verified - 1)
        try queue.inDatabase { db in
            try db.execute(sql: "PRAGMA busy_timeout = 5000")
            try db.inTransaction(.immediate) {
                if through > pruned {
                    try db.execute(sql: "DELETE FROM entry WHERE id <= ?", arguments: [through])
                    if db.changesCount != through - pruned {
                        note(
                            .lost,
                            "\(through - pruned - db.changesCount) of \(through - pruned) rows that were checked"
                        )
                    }
                }
                try db.execute(sql: "DELETE FROM mirror WHERE id <= ?", arguments: [mirrorBefore - 1])
                try db.execute(sql: "DELETE FROM applied WHERE id <= ?", arguments: [appliedBefore - 1])
                for author in checkedAuthors {
                    try db.execute(sql: "DELETE FROM sharedWrite WHERE author = ?", arguments: [author])
                }
                return .commit
            }
        }
        checkedAuthors = []
        if through > pruned { pruned = through }
    }
}
