import CRoundtableShims
import RoundtableGate
import RoundtableKernel
import Synchronization

/// The raw handles of one database. A handle is listed until it is detached or deallocated.
final class RawHandles: DatabaseCompanion {
    private struct Entry {
        weak var handle: SharedDatabase.RawHandle?
    }
    private let entries = Mutex<[ObjectIdentifier: Entry]>([:])

    private var all: [SharedDatabase.RawHandle] { entries.withLock { $0.values.compactMap(\.handle) } }

    func add(_ handle: SharedDatabase.RawHandle) {
        entries.withLock { $0[ObjectIdentifier(handle)] = Entry(handle: handle) }
    }

    func remove(_ id: ObjectIdentifier) { _ = entries.withLock { $0.removeValue(forKey: id) } }

    func isInTurn(onThread thread: UInt) -> Bool { all.contains { $0.isInTurn(onThread: thread) } }

    /// Interrupts the statements that run within turns.
    package func gateInterruptsWrites() { all.forEach { $0.interrupt() } }

    package func gateDidClose(_ gate: SuspensionGate, until deadline: Nanoseconds) -> [SuspensionReport.Access] {
        for handle in all { handle.show(isSuspended: true) }
        return []
    }

    package func gateWillOpen() { for handle in all { handle.show(isSuspended: false) } }

    /// Detaches all handles of a database that closes.
    ///
    /// - throws: `SQLITE_BUSY` when a handle holds the turn. If it already holds the turn when this is called, no handle is detached.
    func databaseWillClose(isWithinAccess: Bool) throws {
        let handles = all
        if let busy = handles.first(where: \.isInTurn) { throw busy.isWriting }
        for handle in handles {
            // A handle that waited for the turn may have acquired it since the check.
            do { try handle.detach() } catch is RawHandleError { throw handle.isWriting }
        }
    }
}
