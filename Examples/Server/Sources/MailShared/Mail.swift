import Foundation
import GRDB
import PersistedValues
import Roundtable
import RoundtableJobs

/// A mail that the server has accepted.
public struct Mail: Codable, FetchableRecord, MutablePersistableRecord, Sendable {
    public static let databaseTableName = "mail"
    public private(set) var id: Int64?
    public var recipient: String
    public var subject: String
    public var body: String
    /// The job that sends the mail.
    public private(set) var job: Int64?

    public init(recipient: String, subject: String, body: String) {
        self.recipient = recipient
        self.subject = subject
        self.body = body
    }

    public mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }

    /// Stores the mail and the job that sends it: both, or neither.
    ///
    /// - returns: the id of the mail.
    public mutating func accept(in db: Database) throws -> Int64 {
        try insert(db)
        let id = db.lastInsertedRowID
        job = try Mail.queue.add(SendMail(mail: id), in: db)
        try update(db)
        return id
    }
}

/// What a job is about. It names the row instead of copying it.
public struct SendMail: Codable, Sendable {
    public var mail: Int64
}

/// A mail was sent. The row is written in the transaction that completes the job.
public struct Delivery: Codable, FetchableRecord, PersistableRecord, Sendable {
    public static let databaseTableName = "delivery"
    public var mail: Int64
    public var worker: String
    public var attempt: Int64
    public var date: Date

    public init(mail: Int64, worker: String, attempt: Int64, date: Date) {
        self.mail = mail
        self.worker = worker
        self.attempt = attempt
        self.date = date
    }
}

/// The deliveries of one day, in UTC.
public struct Summary: Codable, FetchableRecord, PersistableRecord, Sendable {
    public static let databaseTableName = "summary"
    public var day: String
    public var delivered: Int
    /// The deliveries that needed more than one attempt.
    public var repeated: Int
}

extension Mail {
    public static let queue = JobQueue("mail", of: SendMail.self)

    /// The schema, for all programs. The one that opens the database first applies the migrations.
    public static var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("jobs") { db in try db.createJobTables() }
        migrator.registerMigration("mail") { db in
            try db.create(table: "mail") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("recipient", .text).notNull()
                table.column("subject", .text).notNull()
                table.column("body", .text).notNull()
                table.column("job", .integer)
            }
            try db.create(table: "delivery") { table in
                // The index is not unique: if a mail were delivered twice, this table would show it.
                table.column("mail", .integer).notNull().indexed().references("mail")
                table.column("worker", .text).notNull()
                table.column("attempt", .integer).notNull()
                table.column("date", .datetime).notNull().indexed()
            }
            try db.create(table: "summary") { table in
                table.column("day", .text).primaryKey()
                table.column("delivered", .integer).notNull()
                table.column("repeated", .integer).notNull()
            }
        }
        migrator.registerMigration("values") { db in try PersistedValues.createTable(in: db) }
        return SharedSchema(migrator)
    }
}
