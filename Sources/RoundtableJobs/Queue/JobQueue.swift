import Foundation
import GRDB
import RoundtableCore

/// A queue of jobs in a shared database: what is to be done later, by any process, once. See <doc:Jobs>.
///
/// ```swift
/// let mails = JobQueue("mail", of: Mail.self)
///
/// try await db.write { db in
///     try order.insert(db)
///     try mails.add(Mail(to: order.customer), in: db)         // both, or neither
/// }
/// try await mails.run(in: db, workers: 4) { job in            // in any number of processes
///     let receipt = try await deliver(job.payload)
///     try await job.complete { db in try receipt.insert(db) } // once
/// }
/// ```
///
/// The tables of all queues are created by a migration (`Database.createJobTables()`). A queue is a value without a state: declare it in
/// the module that your programs share. It is safe to use from any thread and in any process.
public struct JobQueue<Payload: Codable & Sendable>: Sendable {
    /// The name, which all programs that use the queue know it by. Queues do not wait for each other.
    public let name: String

    /// How often a job is attempted. The value of the process that runs the job counts.
    public var retries: JobRetries

    /// How long the jobs of a worker that is frozen stay its own. It is renewed while the handlers run, however long they take, so it
    /// need not be longer than a job. At least 30 ms. Longer ones bear longer pauses of the process or of the disk; jobs of a process
    /// that has died come back earlier.
    public var lease: Duration

    /// - Parameters:
    ///   - name: the name of the queue. It contains no NUL, which is a precondition.
    ///   - payload: what a job is about: stored as JSON, with dates in ms since 1970.
    ///   - retries: how often a job is attempted.
    ///   - lease: how long the jobs of a frozen worker stay its own.
    public init(
        _ name: String,
        of payload: Payload.Type = Payload.self,
        retries: JobRetries = JobRetries(),
        lease: Duration = .seconds(30)
    ) {
        precondition(!name.utf8.contains(0), "the name of a queue contains a NUL: \(name.debugDescription)")
        self.name = name
        self.retries = retries
        self.lease = lease
    }

    /// Adds a job in the transaction of `db`: it exists exactly if that is committed.
    ///
    /// - Parameters:
    ///   - payload: what the job is about.
    ///   - notBefore: when the job may begin, by the wall clock. nil: now.
    ///   - priority: jobs with a higher one are claimed first.
    ///   - key: if a job of this queue with the same key is scheduled or waiting, nothing is added. A running job does not
    ///     count, because it may have read what is older.
    ///   - db: a connection inside a write transaction.
    /// - returns: the id of the job; nil if one with this key waits.
    /// - throws: `DatabaseError`; ``JobError/unencodable(queue:reason:)``, ``JobError/unusableKey(queue:key:)``.
    @discardableResult
    public func add(
        _ payload: Payload,
        notBefore: Date? = nil,
        priority: Int = 0,
        unique key: String? = nil,
        in db: Database
    ) throws -> Int64? {
        try add(payload, notBefore: notBefore, priority: priority, unique: key, in: db, at: .now)
    }

    package func add(
        _ payload: Payload,
        notBefore: Date? = nil,
        priority: Int = 0,
        unique key: String? = nil,
        in db: Database,
        at time: JobTime
    ) throws -> Int64? {
        if let key, key.utf8.contains(0) { throw JobError.unusableKey(queue: name, key: key) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .millisecondsSince1970
        let data: Data
        do {
            data = try encoder.encode(payload)
        } catch {
            throw JobError.unencodable(queue: name, reason: Self.reason(error))
        }
        let due = notBefore?.millisecondsSince1970
        return try JobTable.add(data, to: name, notBefore: due, priority: priority, key: key, at: time, db)
    }

    /// The payload of a job.
    ///
    /// - throws: ``JobError/undecodable(queue:job:reason:)``, if another version of the program, or another program, has stored it.
    public func payload(of job: JobRecord) throws -> Payload { try decode(job.json, of: job.id) }

    package func decode(_ json: Data, of job: Int64) throws -> Payload {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .millisecondsSince1970
        do {
            return try decoder.decode(Payload.self, from: json)
        } catch {
            throw JobError.undecodable(queue: name, job: job, reason: Self.reason(error))
        }
    }

    private static func reason(_ error: any Error) -> String { "\(Payload.self): \("\(error)".withoutFullStop)" }

    package var policy: JobPolicy {
        JobPolicy(
            queue: name,
            maximumAttempts: max(1, retries.maximumAttempts),
            firstDelay: retries.firstDelay.milliseconds,
            maximumDelay: retries.maximumDelay.milliseconds
        )
    }
}

/// How often a job is attempted, and when.
public struct JobRetries: Sendable, Equatable {
    /// After so many failures, the job is ``JobState/dead``. An attempt whose process died or froze counts as a failure, because the
    /// job may be the cause. At least 1.
    public var maximumAttempts: Int
    /// The pause after the first failure. It doubles with each further one.
    public var firstDelay: Duration
    /// The longest pause.
    public var maximumDelay: Duration

    public init(
        maximumAttempts: Int = 5,
        firstDelay: Duration = .seconds(1),
        maximumDelay: Duration = .seconds(3600)
    ) {
        self.maximumAttempts = maximumAttempts
        self.firstDelay = firstDelay
        self.maximumDelay = maximumDelay
    }
}
