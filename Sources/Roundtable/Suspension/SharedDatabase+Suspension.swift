import Foundation
import RoundtableKernel

/// Suspending one database. See <doc:NeverFrozenWithALock>.
extension SharedDatabase {
    /// Closes the gate, before the system freezes this process: new writes wait or fail (``Options/whileSuspended``), one that runs has
    /// until shortly before the deadline to finish; then it is interrupted and rolled back. Where the system has granted an assertion
    /// for it (``suspensionAssertions``), it may finish, and the gate is closed then.
    ///
    /// It never comes too late to call this, nor too often. Blocks until the locks are released, at most until the deadline.
    ///
    /// - parameter deadline: when the process may be frozen.
    /// - returns: whether the locks are released, and else, who holds one.
    @_disfavoredOverload
    public func suspend(deadline: ContinuousClock.Instant) -> Suspension {
        gate.process.suspend(gate, until: deadline.monotonic)
    }

    /// The same, without blocking the thread.
    public func suspend(deadline: ContinuousClock.Instant) async -> Suspension {
        await offThread { [gate] in gate.process.suspend(gate, until: deadline.monotonic) }
    }

    /// Takes a `suspend(deadline:)` of this database back. Opens the gate, unless all databases of the process are suspended.
    ///
    /// What was missed is told to those who observe, as one change.
    public func resume() { gate.change { $0.own.isSuspended = false } }

    /// Whether the gate is closed.
    public var isSuspended: Bool { gate.isClosed }

    /// Runs `body` with the gate open, also while the process is in the background: for pushes, App Intents, background tasks.
    ///
    /// The system is asked for an assertion. The gate is open from then on until `body` has returned, or until the assertion expires; if
    /// the database was not suspended, it is not afterwards either. Several may run at once, and inside of each other.
    ///
    /// - parameter name: what for, for people.
    /// - throws: what `body` throws; ``SharedDatabaseError/assertionRefused(name:)`` when the database is suspended and the system
    ///   grants no assertion.
    @_disfavoredOverload
    public func withProtectedAccess<T>(_ name: String? = nil, _ body: () throws -> T) throws -> T {
        try gate.process.withProtectedAccess(name ?? author, of: gate, grace: suspensionGrace, body)
    }

    /// The same, without blocking the thread.
    public func withProtectedAccess<T>(
        _ name: String? = nil,
        isolation: isolated (any Actor)? = #isolation,
        _ body: () async throws -> T
    ) async throws -> T {
        try await gate.process.withProtectedAccess(name ?? author, of: gate, grace: suspensionGrace, body)
    }
}

/// Suspending all databases of the process: those that are open, that are being opened, and that will be.
extension SharedDatabase {
    /// ``suspend(deadline:)`` of all databases.
    @_disfavoredOverload
    @discardableResult
    public static func suspendAll(deadline: ContinuousClock.Instant) -> [Suspension] {
        ProcessSuspension.shared.suspend(until: deadline.monotonic)
    }

    /// The same, without blocking the thread.
    @discardableResult
    public static func suspendAll(deadline: ContinuousClock.Instant) async -> [Suspension] {
        await offThread { ProcessSuspension.shared.suspend(until: deadline.monotonic) }
    }

    /// Takes ``suspendAll(deadline:)`` back. A database that was suspended by itself stays so.
    public static func resumeAll() { ProcessSuspension.shared.resume() }

    /// Runs `body` with the gates of all databases open that are not suspended by themselves.
    /// See the function of the same name of one database.
    @_disfavoredOverload
    public static func withProtectedAccess<T>(_ name: String, _ body: () throws -> T) throws -> T {
        try ProcessSuspension.shared.withProtectedAccess(name, grace: Options().suspensionGrace, body)
    }

    /// The same, without blocking the thread.
    public static func withProtectedAccess<T>(
        _ name: String,
        isolation: isolated (any Actor)? = #isolation,
        _ body: () async throws -> T
    ) async throws -> T {
        try await ProcessSuspension.shared.withProtectedAccess(name, grace: Options().suspensionGrace, body)
    }

    /// What the system gives against being suspended. On iOS, it is there by itself. nil: nothing is known to give any.
    public static var suspensionAssertions: (any SuspensionAssertions)? {
        get { ProcessSuspension.shared.assertions.provider }
        set { ProcessSuspension.shared.assertions.provider = newValue }
    }
}

extension ProcessSuspension {
    package func withProtectedAccess<T>(_ name: String, grace: Duration, _ body: () throws -> T) throws -> T {
        try withProtectedAccess(name, of: nil, grace: grace, body)
    }

    /// - parameter gate: nil for all of the process.
    fileprivate func withProtectedAccess<T>(
        _ name: String,
        of gate: SuspensionGate?,
        grace: Duration,
        _ body: () throws -> T
    ) throws -> T {
        let protection = try beginProtection(name, of: gate)
        defer { if let protection { endProtection(protection, grace: grace.nanoseconds) } }
        return try body()
    }

    fileprivate func withProtectedAccess<T>(
        _ name: String,
        of gate: SuspensionGate? = nil,
        grace: Duration,
        isolation: isolated (any Actor)? = #isolation,
        _ body: () async throws -> T
    ) async throws -> T {
        let protection = try await offThread { Result { try self.beginProtection(name, of: gate) } }.get()
        let result: T
        do {
            result = try await body()
        } catch {
            await end(protection, grace: grace)
            throw error
        }
        await end(protection, grace: grace)
        return result
    }

    private func end(_ protection: Protection?, grace: Duration) async {
        guard let protection else { return }
        await offThread { self.endProtection(protection, grace: grace.nanoseconds) }
    }
}

/// Runs what blocks on a thread of its own: those of Swift and of Dispatch are few, and may all be blocked when the system is about to
/// freeze the process.
func offThread<T: Sendable>(_ body: @escaping @Sendable () -> T) async -> T {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: body()) }
    }
}

extension ContinuousClock.Instant {
    /// On the clock of the kernel.
    var monotonic: Nanoseconds {
        MonotonicClock.now.addingSaturating(max(.zero, self - ContinuousClock.now).nanoseconds)
    }
}
