import Foundation
import RoundtableGate
import RoundtableKernel

/// These functions suspend one database. See <doc:NeverFrozenWithALock>.
extension SharedDatabase {
    /// Suspends the database, before the system freezes this process.
    ///
    /// New writes wait or fail (``Options/whileSuspended``). A running write may finish until shortly before the deadline; then
    /// it is interrupted and rolled back. If the system has granted an assertion for the write (``suspensionAssertions``), the
    /// write may finish, and the database is suspended then.
    ///
    /// It is never too late to call this, and it can be called repeatedly. It blocks until the locks are released, at most until
    /// the deadline.
    ///
    /// - parameter deadline: when the process may be frozen.
    /// - returns: whether the locks are released, and otherwise which access holds one.
    @_disfavoredOverload
    public func suspend(deadline: ContinuousClock.Instant) -> SuspensionReport {
        gate.process.suspend(gate, until: deadline.monotonic)
    }

    /// Does the same as the blocking function of this name, without blocking the thread.
    public func suspend(deadline: ContinuousClock.Instant) async -> SuspensionReport {
        await offThread { [gate] in gate.process.suspend(gate, until: deadline.monotonic) }
    }

    /// Takes a `suspend(deadline:)` of this database back. The database is resumed, unless all databases of the process are
    /// suspended.
    ///
    /// Observers are notified of the changes that they have missed, as one change.
    public func resume() { gate.change { $0.own.isSuspended = false } }

    /// Whether the database is suspended.
    public var isSuspended: Bool { gate.isClosed }

    /// Runs `body` while the database is not suspended, also while the process is in the background: for pushes, App Intents,
    /// background tasks.
    ///
    /// This requests an assertion from the system. The database can be used until `body` has returned, or until the assertion
    /// expires. A database that was not suspended before is not suspended afterwards. Protected accesses may overlap and nest.
    ///
    /// - Parameters:
    ///   - name: the purpose, in words for people; nil: ``author``.
    ///   - body: accesses the database.
    /// - throws: what `body` throws; ``SharedDatabaseError/assertionRefused(name:)`` when the system grants no assertion, and the
    ///   database is suspended or the process gets no notice before it is frozen (an extension, an app in the background).
    @_disfavoredOverload
    public func withProtectedAccess<T>(_ name: String? = nil, _ body: () throws -> T) throws -> T {
        try gate.process.withProtectedAccess(name ?? author, of: gate, grace: options.suspensionGrace, body)
    }

    /// Does the same as the blocking function of this name, without blocking the thread.
    public func withProtectedAccess<T>(
        _ name: String? = nil,
        isolation: isolated (any Actor)? = #isolation,
        _ body: () async throws -> T
    ) async throws -> T {
        try await gate.process.withProtectedAccess(name ?? author, of: gate, grace: options.suspensionGrace, body)
    }
}

/// These functions suspend all databases of the process: those that are open, that are being opened, and that will be opened
/// later.
extension SharedDatabase {
    /// Suspends all databases of the process. See ``suspend(deadline:)``.
    @_disfavoredOverload
    @discardableResult
    public static func suspendAll(deadline: ContinuousClock.Instant) -> [SuspensionReport] {
        ProcessSuspension.shared.suspend(until: deadline.monotonic)
    }

    /// Does the same as the blocking function of this name, without blocking the thread.
    @discardableResult
    public static func suspendAll(deadline: ContinuousClock.Instant) async -> [SuspensionReport] {
        await offThread { ProcessSuspension.shared.suspend(until: deadline.monotonic) }
    }

    /// Takes ``suspendAll(deadline:)`` back. A database that was suspended individually stays suspended.
    public static func resumeAll() { ProcessSuspension.shared.resume() }

    /// Runs `body` while no database of the process is suspended, except those that were suspended individually. See the function
    /// of the same name of one database.
    @_disfavoredOverload
    public static func withProtectedAccess<T>(_ name: String, _ body: () throws -> T) throws -> T {
        PlatformLifecycle.followOnce()
        return try ProcessSuspension.shared.withProtectedAccess(name, grace: Options().suspensionGrace, body)
    }

    /// Does the same as the blocking function of this name, without blocking the thread.
    public static func withProtectedAccess<T>(
        _ name: String,
        isolation: isolated (any Actor)? = #isolation,
        _ body: () async throws -> T
    ) async throws -> T {
        PlatformLifecycle.followOnce()
        return try await ProcessSuspension.shared.withProtectedAccess(name, grace: Options().suspensionGrace, body)
    }

    /// The assertions of the system that keep this process from being suspended. On iOS, Roundtable sets them when the first
    /// database is opened, or the first protected access of the process begins. nil: no assertions are available.
    public static var suspensionAssertions: (any SuspensionAssertions)? {
        get { ProcessSuspension.shared.assertions.provider }
        set { ProcessSuspension.shared.assertions.provider = newValue }
    }

    /// Whether databases are suspended when this app, or the app that hosts this extension, enters the background, on iOS and
    /// visionOS. The default is true.
    ///
    /// Set it to false, before the first database is opened, in an app that the system keeps running in the background (location,
    /// audio), or that suspends its databases by itself.
    public static var suspendsInBackground: Bool {
        get { PlatformLifecycle.suspendsInBackground }
        set { PlatformLifecycle.suspendsInBackground = newValue }
    }
}

extension ProcessSuspension {
    /// - parameter gate: nil for all databases of the process.
    package func withProtectedAccess<T>(
        _ name: String,
        of gate: SuspensionGate? = nil,
        grace: Duration,
        _ body: () throws -> T
    ) throws -> T {
        let protection = try requestProtection(name, of: gate)
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
        let protection = try await offThread { Result { try self.requestProtection(name, of: gate) } }.get()
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

    private func requestProtection(_ name: String, of gate: SuspensionGate?) throws -> Protection? {
        do {
            return try beginProtection(name, of: gate)
        } catch is AssertionRefused {
            throw SharedDatabaseError.assertionRefused(name: name)
        }
    }

    private func end(_ protection: Protection?, grace: Duration) async {
        guard let protection else { return }
        await offThread { self.endProtection(protection, grace: grace.nanoseconds) }
    }
}

extension ContinuousClock.Instant {
    /// This instant on the clock of the kernel.
    var monotonic: Nanoseconds {
        MonotonicClock.now.addingSaturating(max(.zero, self - ContinuousClock.now).nanoseconds)
    }
}
