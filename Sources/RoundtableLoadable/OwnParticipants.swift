import RoundtableKernel
import Synchronization

/// The owners of slots that this library has in this process. Other participants of the process are those of Roundtable itself, and take
/// the turn before their SQLite requests the lock.
enum OwnParticipants {
    private static let owners = Mutex<Set<OwnerWord>>([])

    static func add(_ owner: OwnerWord) { owners.withLock { _ = $0.insert(owner) } }
    static func remove(_ owner: OwnerWord) { owners.withLock { _ = $0.remove(owner) } }
    static func contains(_ owner: OwnerWord) -> Bool { owners.withLock { $0.contains(owner) } }
}
