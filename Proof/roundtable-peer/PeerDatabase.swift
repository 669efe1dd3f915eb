import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableTestSupport
import Synchronization

/// The database of a peer: a `SharedDatabase`, or GRDB's for comparison.
enum PeerDatabase {
    case shared(SharedDatabase)
    case pool(DatabasePool)
    case queue(DatabaseQueue)

    /// Calls the method of the concrete type, because a call through `any DatabaseWriter` would lose the call site.
    func write(priority: SharedDatabase.TurnPriority? = nil, _ updates: (Database) throws -> Void) throws {
        switch self {
        case .shared(let database): try database.write(priority: priority, updates)
        case .pool(let pool): try pool.write(updates)
        case .queue(let queue): try queue.write(updates)
        }
    }

    var reader: any DatabaseReader {
        switch self {
        case .shared(let database): database
        case .pool(let pool): pool
        case .queue(let queue): queue
        }
    }

    var shared: SharedDatabase {
        get throws {
            guard case .shared(let database) = self else { throw TestKitError("not a SharedDatabase") }
            return database
        }
    }

    func close() throws { try reader.close() }
}

/// Opens a pool with a busy timeout and persistent WAL, as GRDB's guide on sharing a database advises. Its advice about a file
/// coordinator applies to Apple's systems.
func openPool(at url: URL, observesSuspension: Bool) throws -> DatabasePool {
    var configuration = Configuration()
    configuration.observesSuspensionNotifications = observesSuspension
    configuration.busyMode = .timeout(5)
    configuration.prepareDatabase { db in
        guard !db.configuration.readonly else { return }
        var flag: CInt = 1
        let code = sqlite3_file_control(db.sqliteConnection, nil, SQLITE_FCNTL_PERSIST_WAL, &flag)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
    return try DatabasePool(path: url.path, configuration: configuration)
}

extension PeerOptions {
    var options: SharedDatabase.Options {
        var options = SharedDatabase.Options()
        // A test asks for the events that matter to it.
        options.eventLog = .off
        if let priority = priority.flatMap(SharedDatabase.TurnPriority.init) { options.priority = priority }
        if let sliceMilliseconds { options.slice = .milliseconds(sliceMilliseconds) }
        if let patienceMilliseconds { options.patience = .milliseconds(patienceMilliseconds) }
        if let busyTimeoutMilliseconds { options.busyTimeout = .milliseconds(busyTimeoutMilliseconds) }
        if let setupTimeoutMilliseconds { options.setupTimeout = .milliseconds(setupTimeoutMilliseconds) }
        switch checkpointing {
        case .automatic(let threshold): options.checkpointing = .automatic(threshold: threshold)
        case .manual: options.checkpointing = .manual
        case .external: options.checkpointing = .external
        case nil: break
        }
        if let suspensionPolicy {
            options.suspensionPolicy = suspensionPolicy
            options.whileSuspended = .wait
        }
        options.encryption = encryption?.encryption
        if let newerSchemaPolicy { options.newerSchemaPolicy = newerSchemaPolicy }
        if suspendsOnTerminalStop == true || AppleConditions.areOn { options.whileSuspended = .wait }
        return options
    }
}

/// The events that a peer has received.
final class PeerEvents: Sendable {
    private let events = Mutex<[SharedDatabase.Event]>([])
    @Sendable func note(_ event: SharedDatabase.Event) { events.withLock { $0.append(event) } }

    /// The events of the schema, one on each line.
    var schema: String {
        events.withLock { events in
            events.compactMap { event -> String? in
                guard case .schema(let event) = event.kind else { return nil }
                return "\(event)"
            }.joined(separator: "\n")
        }
    }

    /// All events, one on each line: the severity, the category and the description.
    var text: String {
        events.withLock { $0.map { "\($0.severity) \($0.category): \($0)" }.joined(separator: "\n") }
    }
}

/// Runs an asynchronous function and waits for its end. The peer does one thing at a time, on its main thread.
func blocking<T: Sendable>(_ body: @escaping @Sendable () async throws -> T) throws -> T {
    let result = ResultBox<T>()
    let isDone = DispatchSemaphore(value: 0)
    Task.detached {
        do {
            result.set(.success(try await body()))
        } catch {
            result.set(.failure(error))
        }
        isDone.signal()
    }
    isDone.wait()
    return try result.get()
}

private final class ResultBox<T: Sendable>: Sendable {
    private let value = Mutex<Result<T, any Error>?>(nil)
    func set(_ result: Result<T, any Error>) { value.withLock { $0 = result } }
    func get() throws -> T { try value.withLock { $0! }.get() }
}
