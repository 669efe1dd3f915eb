import Dispatch
import Roundtable

@testable import GRDB

/// Shadows GRDB's pool in the module of the tests.
final class DatabasePool: SuiteDatabase, @unchecked Sendable {
    convenience init(path: String, configuration: Configuration = Configuration()) throws {
        self.init(base: try Suite.open(path, configuration))
    }

    func makeSnapshot() throws -> DatabaseSnapshot { DatabaseSnapshot(base: try Suite.snapshot(of: base)) }

    func writeInTransaction(
        _ kind: Database.TransactionKind? = nil,
        _ updates: (Database) throws -> Database.TransactionCompletion
    ) throws { try inTransaction(kind, updates) }

    @available(*, deprecated)
    func asyncConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        spawnConcurrentRead(value)
    }

    /// A shared database has no counterpart: it opens its readers again by itself.
    func invalidateReadOnlyConnections() { (base as? GRDB.DatabasePool)?.invalidateReadOnlyConnections() }
}

/// Shadows GRDB's queue in the module of the tests. Only a database in memory is a queue.
final class DatabaseQueue: SuiteDatabase, @unchecked Sendable {
    convenience init(path: String, configuration: Configuration = Configuration()) throws {
        if path == ":memory:" {
            self.init(base: try GRDB.DatabaseQueue(path: path, configuration: configuration))
        } else {
            self.init(base: try Suite.open(path, configuration))
        }
    }

    convenience init(named name: String? = nil, configuration: Configuration = Configuration()) throws {
        self.init(base: try GRDB.DatabaseQueue(named: name, configuration: configuration))
    }

    static func inMemoryCopy(fromPath path: String, configuration: Configuration = Configuration()) throws -> Self {
        Self(base: try GRDB.DatabaseQueue.inMemoryCopy(fromPath: path, configuration: configuration))
    }

    static func temporaryCopy(fromPath path: String, configuration: Configuration = Configuration()) throws -> Self {
        Self(base: try GRDB.DatabaseQueue.temporaryCopy(fromPath: path, configuration: configuration))
    }
}

/// What pools and queues have in common: they forward to a shared database, or to what GRDB has instead.
class SuiteDatabase: @unchecked Sendable {
    // Sendable because `base` is constant and Sendable.
    let base: any DatabaseWriter
    required init(base: any DatabaseWriter) { self.base = base }

    private var shared: SharedDatabase? { base as? SharedDatabase }

    // The functions that a user calls on the type itself. Generic code meets the requirements below instead.

    func inDatabase<T>(_ updates: (Database) throws -> T) rethrows -> T {
        if let shared { return try shared.writeWithoutTransaction(updates) }
        return try base.writeWithoutTransaction(updates)
    }

    func inTransaction(
        _ kind: Database.TransactionKind? = nil,
        _ updates: (Database) throws -> Database.TransactionCompletion
    ) throws {
        try inDatabase { db in try db.inTransaction(kind) { try updates(db) } }
    }

    @_disfavoredOverload
    func write<T>(_ updates: (Database) throws -> T) throws -> T {
        if let shared { return try shared.write(updates) }
        return try base.write(updates)
    }

    func write<T: Sendable>(_ updates: @Sendable (Database) throws -> T) async throws -> T {
        if let shared { return try await shared.write(updates) }
        return try await base.write(updates)
    }

    func add(
        transactionObserver: some TransactionObserver,
        extent: Database.TransactionObservationExtent = .observerLifetime
    ) {
        if let shared { return shared.add(transactionObserver: transactionObserver, extent: extent) }
        base.add(transactionObserver: transactionObserver, extent: extent)
    }

    func remove(transactionObserver: some TransactionObserver) {
        if let shared { return shared.remove(transactionObserver: transactionObserver) }
        base.remove(transactionObserver: transactionObserver)
    }

    func suspend() {
        switch base {
        case let shared as SharedDatabase: _ = shared.suspend(deadline: .now)
        case let pool as GRDB.DatabasePool: pool.suspend()
        default: (base as? GRDB.DatabaseQueue)?.suspend()
        }
    }

    func resume() {
        switch base {
        case let shared as SharedDatabase: shared.resume()
        case let pool as GRDB.DatabasePool: pool.resume()
        default: (base as? GRDB.DatabaseQueue)?.resume()
        }
    }

    func releaseMemory() {
        (base as? SharedDatabase)?.releaseMemory()
        (base as? GRDB.DatabasePool)?.releaseMemory()
        (base as? GRDB.DatabaseQueue)?.releaseMemory()
    }
}

extension SuiteDatabase: DatabaseWriter {
    var configuration: Configuration { base.configuration }
    var path: String { base.path }
    func close() throws { try base.close() }
    func interrupt() { base.interrupt() }

    @_disfavoredOverload
    func read<T>(_ value: (Database) throws -> T) throws -> T {
        if let shared { return try shared.read(value) }
        return try base.read(value)
    }

    func read<T: Sendable>(_ value: @Sendable (Database) throws -> T) async throws -> T {
        if let shared { return try await shared.read(value) }
        return try await base.read(value)
    }

    func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) { base.asyncRead(value) }

    @_disfavoredOverload
    func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T { try base.unsafeRead(value) }

    func unsafeRead<T: Sendable>(_ value: @Sendable (Database) throws -> T) async throws -> T {
        try await base.unsafeRead(value)
    }

    func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        base.asyncUnsafeRead(value)
    }

    func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T { try base.unsafeReentrantRead(value) }

    func _add<Reducer: ValueReducer>(
        observation: ValueObservation<Reducer>,
        scheduling scheduler: some ValueObservationScheduler,
        onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        base._add(observation: observation, scheduling: scheduler, onChange: onChange)
    }

    @_disfavoredOverload
    func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try base.writeWithoutTransaction(updates)
    }

    func writeWithoutTransaction<T: Sendable>(_ updates: @Sendable (Database) throws -> T) async throws -> T {
        try await base.writeWithoutTransaction(updates)
    }

    @_disfavoredOverload
    func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try base.barrierWriteWithoutTransaction(updates)
    }

    func barrierWriteWithoutTransaction<T: Sendable>(_ updates: @Sendable (Database) throws -> T) async throws -> T {
        try await base.barrierWriteWithoutTransaction(updates)
    }

    func asyncBarrierWriteWithoutTransaction(_ updates: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        base.asyncBarrierWriteWithoutTransaction(updates)
    }

    func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        base.asyncWriteWithoutTransaction(updates)
    }

    func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try base.unsafeReentrantWrite(updates)
    }

    func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        base.spawnConcurrentRead(value)
    }
}
