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

    private let queue: DatabaseQueue
    private let use: HeldConnection.Use
    private let callSite: String?
    private let didClose: @Sendable () -> Void
    private let phase = Mutex(Phase.waiting)
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
                let mayBegin = phase.withLock { phase in
                    guard case .waiting = phase else { return false }
                    phase = .preparing
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
            switch phase.withLock({ $0 }) {
            case .waiting, .cancelled: return false
            case .closed: return true
            case .preparing: break
            }
            // This runs after the preparation on the queue. A statement or a cursor of the user's may outlive its access, and keeps the
            // connection open.
            do { try OwnConnection.close(queue) } catch { return false }
            phase.withLock { $0 = .closed }
            didClose()
            return true
        }
    }

    /// The connection; nil when it is closed.
    var held: HeldConnection? {
        if case .closed = phase.withLock({ $0 }) { return nil }
        return HeldConnection(use: use, callSite: callSite)
    }

    /// Interrupts the running statement. The next one is not affected.
    func interrupt() {
        phase.withLock { phase in
            // In later phases, the connection may be closed at any moment.
            if case .waiting = phase { queue.interrupt() }
        }
    }

    /// Cancels the closing.
    ///
    /// - returns: false when it is too late, because the connection has been prepared for closing.
    func cancel() -> Bool {
        phase.withLock { phase in
            guard case .waiting = phase else { return false }
            phase = .cancelled
            return true
        }
    }
}
