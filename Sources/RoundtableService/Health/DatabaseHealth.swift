import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableKernel

/// Whether a database can be used, at one moment: ``Roundtable/SharedDatabase/health(within:writeLimit:diskLimit:)``.
///
/// It encodes as JSON with the keys listed here; times are in seconds.
public struct DatabaseHealth: Sendable, Codable, Equatable {
    public enum Status: String, Sendable, Codable {
        case healthy
        /// The database serves requests, and an operator should look.
        case degraded
        /// Requests fail, or some of them do.
        case unhealthy
    }

    /// Something that is not as it should be.
    public struct Reason: Sendable, Codable, Equatable, CustomStringConvertible {
        public enum Code: String, Sendable, Codable, CaseIterable {
            /// A read failed, or did not end before the deadline.
            case unreadable
            /// Writes do not succeed: a process holds the write lock for too long, or is stopped with it. The message names the process.
            case writesBlocked = "writes_blocked"
            /// This participant has no place in the control block: turns are not fair.
            case uncoordinated
            /// The WAL is longer than it should be. The message names the process that holds it back.
            case longWAL = "long_wal"
            /// The last checkpoint failed.
            case checkpointFailed = "checkpoint_failed"
            /// Another program has applied migrations that this one does not know.
            case schemaTooNew = "schema_too_new"
            /// Another machine is the writer now.
            case fenced
            /// The disk is nearly full.
            case diskNearlyFull = "disk_nearly_full"
            /// The database is suspended.
            case suspended
            /// The program is shutting down, or has closed the database.
            case shuttingDown = "shutting_down"
        }

        public var code: Code
        /// What is wrong, and which process is in the way, as a sentence. It holds paths and names, so show it to operators alone.
        public var message: String

        public init(code: Code, message: String) {
            self.code = code
            self.message = message
        }

        public var description: String { "\(code.rawValue): \(message)" }
    }

    public var status: Status
    public var reasons: [Reason]
    /// Whether to restart the process if this is false for some time: a *liveness* probe. It is false only when this process cannot
    /// read although the database is open, not suspended, and not shutting down. All other problems outlast a restart.
    public var isLive: Bool
    /// Whether to send requests to this process: a *readiness* probe. It is false while reads fail, while writes are refused, and from
    /// the beginning of a shutdown on.
    public var isReady: Bool
    /// How long the inspection took.
    public var duration: Duration {
        get { Duration(inSeconds: seconds) }
        set { seconds = newValue.inSeconds }
    }

    private var seconds: Double

    public init(status: Status, reasons: [Reason], isLive: Bool, isReady: Bool, duration: Duration) {
        self.status = status
        self.reasons = reasons
        self.isLive = isLive
        self.isReady = isReady
        seconds = duration.inSeconds
    }

    /// The health as one line of JSON, with sorted keys.
    public var json: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Encoding cannot fail, because all values are strings, booleans and finite numbers.
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }

    enum CodingKeys: String, CodingKey {
        case status, reasons
        case isLive = "live"
        case isReady = "ready"
        case seconds = "duration_s"
    }
}

extension SharedDatabase {
    /// Inspects whether this database can be used, for the health checks of a server.
    ///
    /// It reads one row of the schema, shared memory and the system's tables. It takes no turn, writes nothing, and returns when
    /// the deadline has passed, also if the disk does not answer. Safe in all processes and threads; call it outside of accesses.
    ///
    /// Because it does not write, it finds a program without Roundtable that holds the write lock only when a write waits for that.
    ///
    /// - Parameters:
    ///   - deadline: how long the inspection may take. A database that does not answer within this time is unhealthy.
    ///   - writeLimit: how long a process may hold the write lock, and a write of this process may wait, or half of the busy timeout if that
    ///     is less. A database that cannot be written for longer is unhealthy. A process that is stopped while it holds the lock makes it unhealthy at once.
    ///   - diskLimit: how many bytes must be free on the file system of the database.
    public func health(
        within deadline: Duration = .seconds(1),
        writeLimit: Duration = .seconds(5),
        diskLimit: Int = 64 << 20
    ) async -> DatabaseHealth {
        let began = MonotonicClock.now
        var inspection = HealthInspection()
        if hasClosed || isShuttingDown {
            inspection.add(.shuttingDown, "the database is closed, or closes when the writes that run have ended")
        }
        if !hasClosed {
            if isSuspended {
                inspection.add(.suspended, "the database is suspended: writes wait or fail until resume()")
            } else {
                await inspection.read(self, within: deadline)
            }
            let left = deadline - .nanoseconds(Int64(clamping: MonotonicClock.now.subtractingSaturating(began)))
            let found = await withLimit(max(.milliseconds(10), left)) { [self] in
                var rest = HealthInspection()
                rest.inspectWriting(self, limit: writeLimit)
                rest.inspectSharing(self)
                rest.inspectWAL(self)
                rest.inspectDisk(self, limit: diskLimit)
                return rest.reasons
            }
            inspection.reasons += found ?? []
            if found == nil, !inspection.has(.unreadable) {
                inspection.add(.unreadable, "the files of the database did not answer within \(deadline)")
            }
        }
        return inspection.health(after: MonotonicClock.now.subtractingSaturating(began))
    }
}

/// The findings of an inspection.
struct HealthInspection: Sendable {
    typealias Code = DatabaseHealth.Reason.Code

    var reasons: [DatabaseHealth.Reason] = []

    mutating func add(_ code: Code, _ message: String) {
        reasons.append(DatabaseHealth.Reason(code: code, message: message))
    }

    func has(_ codes: Code...) -> Bool { reasons.contains { codes.contains($0.code) } }

    func health(after duration: Nanoseconds) -> DatabaseHealth {
        let refuses = has(.unreadable, .writesBlocked, .schemaTooNew, .fenced, .suspended, .shuttingDown)
        return DatabaseHealth(
            status: reasons.isEmpty ? .healthy : refuses ? .unhealthy : .degraded,
            reasons: reasons,
            isLive: !has(.unreadable) || has(.suspended, .shuttingDown),
            isReady: !refuses,
            duration: .nanoseconds(Int64(clamping: duration))
        )
    }

    mutating func read(_ database: SharedDatabase, within deadline: Duration) async {
        let result = await withLimit(deadline) {
            Result { try database.read { _ = try Int.fetchOne($0, sql: "SELECT 1 FROM sqlite_master LIMIT 1") } }
        }
        switch result {
        case .success: break
        case .failure(let error): add(.unreadable, "a read failed: \(error)")
        case nil: add(.unreadable, "a read did not end within \(deadline): the readers are in use, or the disk is slow")
        }
    }

    mutating func inspectWriting(_ database: SharedDatabase, limit: Duration) {
        guard let obstacle = database.writeObstacle(longerThan: limit) else { return }
        add(.writesBlocked, "writes do not succeed: \(obstacle)")
    }

    mutating func inspectSharing(_ database: SharedDatabase) {
        if let reason = database.uncoordinatedReason { add(.uncoordinated, "turns are not fair: \(reason)") }
        let unknown = database.unknownMigrations
        if !unknown.isEmpty, database.newerSchemaPolicy != .continue {
            let names = unknown.map { "'\($0)'" }.joined(separator: ", ")
            add(
                .schemaTooNew,
                "another program has applied \(names), which this one does not know: update this program"
            )
        }
        if Fence.exists(databasePath: database.path) {
            add(.fenced, "another machine is the writer ('roundtable promote'): nothing is written here any more")
        }
    }

    mutating func inspectWAL(_ database: SharedDatabase) {
        guard let health = try? database.walHealth() else { return }
        if let failure = health.failure { add(.checkpointFailed, "\(failure)") }
        if health.committedFrames > database.longestWAL { add(.longWAL, "\(health)") }
    }

    mutating func inspectDisk(_ database: SharedDatabase, limit: Int) {
        let folder = URL(fileURLWithPath: database.path).deletingLastPathComponent()
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: folder.path)
        guard let free = attributes?[.systemFreeSize] as? Int, free < limit else { return }
        add(.diskNearlyFull, "\(free / (1 << 20)) MiB are free in \(folder.path), less than \(limit / (1 << 20)) MiB")
    }
}
