import Foundation
import GRDB
import Synchronization

/// Closes one connection as soon as no access runs on it. It uses a thread of its own, because the system's threads may all be
/// busy, or blocked by code that waits for the closing.
final class ConnectionClosing: Sendable {
    private enum Phase {
        /// Earlier accesses on the queue are running. The closing can be cancelled.
        case waiting
        /// The connection is being prepared for closing. The closing cannot be cancelled any more.
        case preparing
        case closed
        case cancelled
    }

    private struct State {
        var phase = Phase.waiting
        /// Whether a statement or a cursor of the user's outlives its access, and keeps the connection open.
        var isInUse = false
    }

    private let queue: DatabaseQueue
    private let use: HeldConnection.Use
    private let callSite: String?
    private let didClose: @Sendable () -> Void
    private let state = Mutex(State())
    /// Held while the connection closes.
    private let closing = NSLock()

    /// - Parameters:
    ///   - use: what the connection was used for.
    ///   - callSite: where it was made, as `File.swift:12`; nil when that is not known.
    ///   - prepare: ends, on the queue, what keeps the connection from closing.
    ///   - didClose: called once, when the connection is closed.
    init(
        _ queue: DatabaseQueue,
        _ use: HeldConnection.Use,
        at callSite: String? = nil,
        prepare: @escaping @Sendable (Database) -> Void,
        didClose: @escaping @Sendable () -> Void = {}
    ) {
        self.queue = queue
        self.use = use
        self.callSite = callSite
        self.didClose = didClose
        let thread = Thread { [self] in
            let mayClose = queue.inDatabase { db in
                let mayBegin = state.withLock { state in
                    guard case .waiting = state.phase else { return false }
                    state.phase = .preparing
                    return true
                }
                if mayBegin { prepare(db) }
                return mayBegin
            }
            if mayClose { step() }
        }
        thread.name = "roundtable.close"
        thread.qualityOfService = .userInitiated
        thread.start()
    }

    /// Closes the connection, if it has been prepared for that. Retries if it was in use. Do not call it on the connection's
    /// queue.
    ///
    /// - returns: whether it is closed.
    @discardableResult
    func step() -> Bool {
        closing.withLock {
            switch state.withLock({ $0.phase }) {
            case .waiting, .cancelled: return false
            case .closed: return true
            case .preparing: break
            }
            do {
                // This runs after the preparation on the queue.
                try OwnConnection.close(queue)
            } catch {
                state.withLock { $0.isInUse = true }
                return false
            }
            state.withLock { $0.phase = .closed }
            didClose()
            return true
        }
    }

    /// The connection, and what keeps it open; nil when it is closed.
    var held: HeldConnection? {
        state.withLock { state in
            if case .closed = state.phase { return nil }
            return HeldConnection(use: use, callSite: callSite, isByStatement: state.isInUse)
        }
    }

    /// Interrupts the running statement. The next one is not affected.
    func interrupt() {
        state.withLock { state in
            // In later phases, the connection may be closed at any moment.
            if case .waiting = state.phase { queue.interrupt() }
        }
    }

    /// Cancels the closing.
    ///
    /// - returns: false when it is too late, because the connection has been prepared for closing.
    func cancel() -> Bool {
        state.withLock { state in
            guard case .waiting = state.phase else { return false }
            state.phase = .cancelled
            return true
        }
    }
}
