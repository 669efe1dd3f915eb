import CRoundtableShims
import Synchronization

/// The raw handles of one database. Each is there until it is detached, or nobody has it any more.
final class Handles: Sendable {
    private struct Entry {
        weak var handle: SharedDatabase.Handle?
    }
    private let entries = Mutex<[ObjectIdentifier: Entry]>([:])

    private var all: [SharedDatabase.Handle] { entries.withLock { $0.values.compactMap(\.handle) } }

    func add(_ handle: SharedDatabase.Handle) {
        entries.withLock { $0[ObjectIdentifier(handle)] = Entry(handle: handle) }
    }

    func remove(_ id: ObjectIdentifier) { _ = entries.withLock { $0.removeValue(forKey: id) } }

    func isInTurn(onThread thread: UInt) -> Bool { all.contains { $0.isInTurn(onThread: thread) } }

    /// Interrupts what runs within turns.
    func interrupt() { all.forEach { $0.interrupt() } }

    func show(isSuspended: Bool) { all.forEach { $0.show(isSuspended: isSuspended) } }

    /// For a database that closes.
    ///
    /// - throws: `SQLITE_BUSY` when one of them has the turn; none is detached then.
    func detachAll() throws {
        let handles = all
        if let busy = handles.first(where: \.isInTurn) { throw busy.isWriting }
        for handle in handles {
            // One that waits for the turn may have got it since.
            do { try handle.detach() } catch is HandleError { throw handle.isWriting }
        }
    }
}
