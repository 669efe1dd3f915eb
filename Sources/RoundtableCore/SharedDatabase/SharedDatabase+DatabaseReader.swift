import Dispatch
import GRDB

/// GRDB's requirements, which generic code calls. They do not record the line of code that called them.
extension SharedDatabase: DatabaseReader {
    /// ``Options/configuration`` as it was passed to opening, with `readonly` set according to ``role``.
    public var configuration: Configuration {
        var configuration = options.configuration
        configuration.readonly = role == .readOnly
        return configuration
    }

    /// Interrupts the running statements of all connections. See
    /// [`sqlite3_interrupt`](https://www.sqlite.org/c3ref/interrupt.html).
    public func interrupt() {
        guard isInOwnProcess else { return }
        writer.interrupt()
        readers.interrupt()
    }

    @_disfavoredOverload
    public func read<T>(_ value: (Database) throws -> T) throws -> T {
        try reading(at: nil, value)
    }

    @_disfavoredOverload
    public func read<T: Sendable>(_ value: @Sendable (Database) throws -> T) async throws -> T {
        try await reading(at: nil, value)
    }

    @_disfavoredOverload
    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        readingLater(at: nil, value)
    }

    @_disfavoredOverload
    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T {
        try reading(at: nil, isolated: false, value)
    }

    @_disfavoredOverload
    public func unsafeRead<T: Sendable>(_ value: @Sendable (Database) throws -> T) async throws -> T {
        try await reading(at: nil, isolated: false, value)
    }

    @_disfavoredOverload
    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        readingUnsafelyLater(at: nil, value)
    }

    @_disfavoredOverload
    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        try readingReentrantly(at: nil, value)
    }

    public func _add<Reducer: ValueReducer>(
        observation: ValueObservation<Reducer>,
        scheduling scheduler: some ValueObservationScheduler,
        onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        addObservation(observation, scheduling: scheduler, onChange: onChange)
    }
}
