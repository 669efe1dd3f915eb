import GRDB
import Synchronization

/// The connections of one database that were given up and close, each as soon as nothing runs on it. None of them is used again.
final class ConnectionClosings: Parkable {
    private let closings = Mutex<[ConnectionClosing]>([])

    /// Gives a connection up. The parameters are those of ``ConnectionClosing``.
    @discardableResult
    func begin(
        _ queue: DatabaseQueue,
        _ use: HeldConnection.Use,
        at callSite: String? = nil,
        prepare: @escaping @Sendable (Database) -> Void
    ) -> ConnectionClosing {
        let closing = ConnectionClosing(queue, use, at: callSite, prepare: prepare) { [weak self] in
            self?.forgetClosed()
        }
        // It may be closed already.
        closings.withLock { if closing.held != nil { $0.append(closing) } }
        return closing
    }

    private func forgetClosed() {
        // The last references are released outside of the lock.
        let all = closings.withLock { closings in
            defer { closings = closings.filter { $0.held != nil } }
            return closings
        }
        withExtendedLifetime(all) {}
    }

    /// Closes those that can be closed now.
    ///
    /// - returns: those that stay open, and why.
    @discardableResult
    func step() -> [HeldConnection] {
        closings.withLock { $0 }.compactMap { closing in
            closing.step()
            return closing.held
        }
    }

    /// Whether none is open.
    var isEmpty: Bool { closings.withLock { $0.isEmpty } }

    // MARK: Parking

    var use: HeldConnection.Use { .reading }

    func park() -> Bool { true }

    func stepParking() -> [HeldConnection] { step() }

    func interruptParking() {
        for closing in closings.withLock({ $0 }) { closing.interrupt() }
    }

    func unpark() {}
}
