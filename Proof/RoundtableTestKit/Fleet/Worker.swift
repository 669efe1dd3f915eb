import Foundation
import GRDB

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The side of a child process of a ``Fleet``: where its database is, and what it records.
///
/// Only one thread at a time may use a worker. For several threads that record, start several processes.
public final class Worker {
    /// What the fleet passes to a worker.
    struct Assignment: Codable {
        var number: Int
        var folder: URL
        var notes: URL
        var seed: UInt64
        var arguments: [String: String]
        var firstIndex: Int
        var group: Group
    }

    /// The children that one call has started. They begin their first transactions together.
    struct Group: Codable {
        var number: Int
        var count: Int
    }

    static let roleVariable = "ROUNDTABLE_FLEET_ROLE"
    static let assignmentVariable = "ROUNDTABLE_FLEET_WORKER"

    /// The number of the worker in its fleet, from 1. A worker that takes the place of a killed one has a number of its own.
    public let number: Int
    /// The folder that all workers share, for the database.
    public let folder: URL
    /// What the test has passed to ``Fleet/start(_:count:arguments:)``.
    public let arguments: [String: String]
    /// The random numbers of this worker, and numbers that no other worker has.
    public var source: WorkloadSource
    private let journal: Journal
    /// Where this worker still has to wait for its group; nil when it has begun.
    private var start: (folder: URL, group: Group)?

    init(_ assignment: Assignment) throws {
        number = assignment.number
        folder = assignment.folder
        arguments = assignment.arguments
        source = WorkloadSource(worker: number, seed: assignment.seed, index: assignment.firstIndex)
        journal = try Journal(worker: number, in: assignment.notes, nextIndex: assignment.firstIndex)
        // The successor of a killed one does not count again.
        if assignment.firstIndex == 0 { start = (assignment.notes, assignment.group) }
    }

    /// Runs a workload in a database of GRDB or Roundtable: each plan in one write, or in one read if it only reads.
    ///
    /// - Parameters:
    ///   - workload: plans the transactions.
    ///   - database: the database on which they run.
    ///   - transactions: the number of transactions of this worker, together with the killed ones before it.
    /// - throws: the errors of the database, except those after which it is worth to continue: ``isPassing(_:)``.
    public func run(_ workload: some Workload, in database: some DatabaseWriter, transactions: Int) throws {
        try run(workload, transactions: transactions) { steps in
            if steps.allSatisfy(\.isRead) {
                return try database.read { try workload.perform(steps, $0) }
            }
            return try database.write { try workload.perform(steps, $0) }
        }
    }

    /// Runs the transactions of a workload by other code.
    ///
    /// - Parameters:
    ///   - workload: plans the transactions.
    ///   - transactions: the number of transactions of this worker, together with the killed ones before it.
    ///   - perform: runs the steps in one transaction, and returns them with the results of the reads.
    /// - throws: the errors of `perform`, except those after which it is worth to continue: ``isPassing(_:)``.
    public func run(
        _ workload: some Workload,
        transactions: Int,
        _ perform: ([Step]) throws -> [Step]
    ) throws {
        while journal.nextIndex < transactions {
            source.index = journal.nextIndex
            let steps = workload.plan(using: &source)
            do {
                try record(steps) { try perform(steps) }
            } catch  where Self.isPassing(error) {
                usleep(1_000)
            }
        }
    }

    /// Records one transaction. The first waits up to ten seconds until the other children of the same call of ``Fleet/start(_:count:arguments:)``
    /// have come as far, or have ended: otherwise one may have ended before the next has opened the database. Call it outside of transactions.
    ///
    /// - Parameters:
    ///   - planned: the steps without results, which count if the process is killed before `body` returns.
    ///   - body: runs the transaction, and returns the steps with their results. If it returns, the transaction is acknowledged.
    /// - throws: what `body` throws.
    public func record(_ planned: [Step], _ body: () throws -> [Step]) throws {
        try waitForGroup()
        let index = try journal.begin(planned)
        do {
            let done = try body()
            try journal.end(index, .committed, done)
        } catch {
            try journal.end(index, Self.isRolledBack(error) ? .failed : .unknown)
            throw error
        }
    }

    private func waitForGroup() throws {
        guard let (folder, group) = start else { return }
        let prefix = try showReady()
        let deadline = ContinuousClock.now + .seconds(10)
        while ContinuousClock.now < deadline {
            let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            if files.count(where: { $0.hasPrefix(prefix) }) >= group.count { return }
            usleep(500)
        }
    }

    /// - returns: the beginning of the names of the files of all children of the group that have come as far.
    @discardableResult
    fileprivate func showReady() throws -> String {
        guard let (folder, group) = start else { return "" }
        start = nil
        let prefix = "ready-\(group.number)-"
        try Data().write(to: folder.appendingPathComponent("\(prefix)\(number)"))
        return prefix
    }

    /// Whether an error is one of those that faults cause, so that a later transaction may succeed: the database is busy, or the disk is full.
    public static func isPassing(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return false }
        let passing: [ResultCode] = [
            .SQLITE_BUSY, .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_ABORT, .SQLITE_INTERRUPT, .SQLITE_CANTOPEN,
        ]
        return passing.contains(error.resultCode)
    }

    /// Whether an error promises that the transaction was rolled back. An I/O error does not.
    static func isRolledBack(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return false }
        let sure: [ResultCode] = [
            .SQLITE_BUSY, .SQLITE_FULL, .SQLITE_ABORT, .SQLITE_INTERRUPT, .SQLITE_CONSTRAINT, .SQLITE_ERROR,
            .SQLITE_READONLY,
        ]
        return sure.contains(error.resultCode)
    }
}

extension Fleet {
    /// What a child process does.
    public typealias Role = @Sendable (Worker) async throws -> Void

    /// Runs a role if a fleet has started this process for it, and ends the process. Otherwise, it returns immediately.
    ///
    /// Call it first in `main`, with all roles of the program. It takes the variables of the fleet out of the environment, so a role may start
    /// its own program. When the process that started it dies, the child ends as well.
    public static func runRole(_ roles: [String: Role]) async {
        let environment = ProcessInfo.processInfo.environment
        guard let name = environment[Worker.roleVariable], let text = environment[Worker.assignmentVariable] else {
            return
        }
        // A program that the role starts is no worker, not even if it is this one.
        unsetenv(Worker.roleVariable)
        unsetenv(Worker.assignmentVariable)
        Thread.detachNewThread { endWithInput() }
        do {
            guard let role = roles[name] else { throw FleetError("this program has no role '\(name)'") }
            let assignment = try JSONDecoder().decode(Worker.Assignment.self, from: Data(text.utf8))
            let worker = try Worker(assignment)
            try await role(worker)
            try worker.showReady()
        } catch {
            // `FileHandle` would end the process by a signal when the disk is full.
            let text = "\(error)\n"
            _ = text.withCString { write(STDERR_FILENO, $0, strlen($0)) }
            exit(1)
        }
        exit(0)
    }

    /// Ends this process when its standard input ends.
    private static func endWithInput() {
        var byte: UInt8 = 0
        while true {
            let count = read(STDIN_FILENO, &byte, 1)
            if count == 0 || count == -1 && errno != EINTR { _exit(3) }
        }
    }
}
