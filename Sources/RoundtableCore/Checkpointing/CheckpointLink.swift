import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

/// The checkpoint connection of a participant. It is opened at its first use, lent to one step at a time, and closed while the
/// database is parked.
final class CheckpointLink: Parkable {
    enum Failure: Error {
        /// A step was running until the deadline.
        case isBusy
        case cannotOpen(DatabaseError)
    }

    private struct State {
        var connection: CheckpointConnection?
        var isParked = false
        var isClosed = false
    }

    let path: String
    private let open: @Sendable () throws -> CheckpointConnection
    /// A lock that is held during each step, and while the connection is opened or closed.
    private let using = NSLock()
    private let state = Mutex(State())

    init(path: String, open: @escaping @Sendable () throws -> CheckpointConnection) {
        self.path = path
        self.open = open
    }

    func use<T>(
        until deadline: Nanoseconds,
        _ body: (CheckpointConnection) throws(DatabaseError) -> T
    ) throws(Failure) -> T {
        guard using.lock(until: deadline) else { throw .isBusy }
        defer { using.unlock() }
        do {
            return try body(opened())
        } catch {
            throw .cannotOpen(error)
        }
    }

    private func opened() throws(DatabaseError) -> CheckpointConnection {
        let (connection, isParked, isClosed) = state.withLock { ($0.connection, $0.isParked, $0.isClosed) }
        if let connection { return connection }
        if isClosed { throw DatabaseError.closed(path) }
        if isParked { throw DatabaseError.suspended(path) }
        do {
            let connection = try open()
            state.withLock { $0.connection = connection }
            return connection
        } catch let error as DatabaseError {
            throw error.naming(path)
        } catch {
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: "\(path): cannot be opened to checkpoint: \(error)"
            )
        }
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    var isOpen: Bool { state.withLock { $0.connection != nil } }

    /// Interrupts the running step. May be called from any thread.
    func interrupt() {
        // The connection is not closed while this lock is held.
        state.withLock { $0.connection?.interrupt() }
    }

    // MARK: Parking

    var use: HeldConnection.Use { .checkpoint }

    func park() -> Bool {
        state.withLock { $0.isParked = true }
        return true
    }

    /// Closes the connection, unless a step is running.
    func stepParking() -> [HeldConnection] {
        closeConnection(until: MonotonicClock.now) ? [] : [HeldConnection(use: .checkpoint)]
    }

    func interruptParking() { interrupt() }

    func unpark() { state.withLock { $0.isParked = false } }

    // MARK: Closing

    /// Closes the connection for good, and interrupts a running step.
    func close() {
        state.withLock { $0.isClosed = true }
        interrupt()
        _ = closeConnection(until: .max)
    }

    private func closeConnection(until deadline: Nanoseconds) -> Bool {
        guard using.lock(until: deadline) else { return false }
        defer { using.unlock() }
        let connection = state.withLock { state in
            defer { state.connection = nil }
            return state.connection
        }
        // No statement of this library keeps the connection open. One of the user's configuration is closed with the last reference.
        try? connection?.close()
        return true
    }
}
