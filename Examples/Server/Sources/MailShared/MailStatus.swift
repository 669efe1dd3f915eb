import Foundation
import GRDB
import RoundtableJobs

/// What is known of a mail.
public struct MailStatus: Codable, Sendable {
    public var id: Int64
    public var state: JobState
    /// Why the last attempt has failed.
    public var error: String?
    public var delivered: Date?

    public init(id: Int64, state: JobState, error: String? = nil, delivered: Date? = nil) {
        self.id = id
        self.state = state
        self.error = error
        self.delivered = delivered
    }

    /// - returns: nil if there is no such mail.
    public static func fetch(_ id: Int64, in db: Database) throws -> MailStatus? {
        guard let mail = try Mail.fetchOne(db, key: id) else { return nil }
        let delivery = try Delivery.filter(Column("mail") == id).fetchOne(db)
        let job = try mail.job.flatMap { try Mail.queue.job($0, in: db) }
        // The nightly program removes jobs that are done or cancelled. Deliveries stay.
        let state = job?.state ?? (delivery == nil ? .cancelled : .done)
        return MailStatus(id: id, state: state, error: job?.error, delivered: delivery?.date)
    }
}

/// The figures of all programs together: they are in the database, so any process can report them.
public struct MailFigures: Sendable {
    public var jobs: JobCounts
    public var deliveries: Int
    /// The age of the job that has been waiting longest, in seconds; 0 if none waits.
    public var oldestWaiting: TimeInterval

    public static func fetch(_ db: Database) throws -> MailFigures {
        let sql = "SELECT min(due) FROM roundtable_job WHERE queue = ? AND state = 'waiting'"
        let oldest = try Double.fetchOne(db, sql: sql, arguments: [Mail.queue.name])
        return MailFigures(
            jobs: try Mail.queue.counts(in: db),
            deliveries: try Delivery.fetchCount(db),
            oldestWaiting: oldest.map { max(0, Date().timeIntervalSince1970 - $0 / 1_000) } ?? 0
        )
    }
}
