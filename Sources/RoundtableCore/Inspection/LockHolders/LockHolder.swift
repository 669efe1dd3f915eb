import Foundation
import GRDB
import RoundtableKernel

/// The holder of the lock of SQLite that blocks an access, as far as it can be determined: the write lock, or SHARED of a reader that
/// keeps a database with a rollback journal from being written.
struct LockHolder {
    enum Party {
        case participant(ParticipantRecord)
        /// A process that does not use Roundtable, or does not use this control block. Typical are a `sqlite3` shell with an open `BEGIN`,
        /// a database browser with unsaved changes, a backup script, and Litestream.
        case stranger(pid: Int32, name: String?)
        /// A process that holds a read lock on the byte of the write lock, or on that of recovery. Any user who may read the database can
        /// do this, by mistake or on purpose: readers that are not trusted get a snapshot file instead.
        case obstruction(ObstructingLock)
        /// A process that reads a database with a rollback journal, which the first opening switches to WAL mode.
        case reader(pid: Int32, name: String?)
        case unknown
    }

    let party: Party

    /// - parameter seat: our own, which is excluded; nil when there is none, or none yet.
    static func find(databasePath: String, seat: Seat?) -> LockHolder {
        let others =
            seat?.participant != nil
            ? seat?.others : (try? ControlBlock.open(forDatabaseAt: databasePath, writable: false))?.participants()
        return find(databasePath: databasePath, among: (others ?? []).filter { $0.liveness != .dead })
    }

    static func find(databasePath: String, among participants: [ParticipantRecord]) -> LockHolder {
        let writers = participants.filter { $0.writing != nil }
        let own = ownPID
        if let lock = SystemLocks.writeLock(databasePath: databasePath) {
            // A participant of this process that does not write has not the lock: a connection outside of Roundtable has it.
            let candidates = writers + (lock.pid == own ? [] : participants)
            if let holder = candidates.first(where: { $0.isProcess(lock.pid) }) {
                return LockHolder(party: .participant(holder))
            }
            // The caller itself holds PENDING while it waits for the readers.
            if lock.pid != own || !lock.isPending {
                return LockHolder(party: .stranger(pid: lock.pid, name: ProcessTable.name(lock.pid)))
            }
        }
        let obstructions = ObstructingLock.all(databasePath: databasePath)
        if let lock = obstructions.first(where: { $0.kind == .write || $0.kind == .recovery }) {
            return LockHolder(party: .obstruction(lock))
        }
        if let pid = SystemLocks.rollbackReaders(databasePath: databasePath).first(where: { $0 != own }) {
            return LockHolder(party: .reader(pid: pid, name: ProcessTable.name(pid)))
        }
        // The system does not name the owner, so this takes the participant that has been writing for longest.
        if let holder = writers.max(by: { $0.writing ?? 0 < $1.writing ?? 0 }) {
            return LockHolder(party: .participant(holder))
        }
        return LockHolder(party: .unknown)
    }

    /// - parameter waited: how long the caller has waited, in nanoseconds; nil when that is not known.
    func description(waited: Nanoseconds? = nil) -> String {
        let waiting = waited.map { "; waited \((Double($0) / 1e9).seconds)" } ?? ""
        switch party {
        case .participant(let holder):
            let name =
                holder.isProcess(Self.ownPID) ? "'\(holder.author)' (pid \(holder.pid), this process)" : holder.name
            var text = "\(name) "
            if let writing = holder.writing {
                text += "has been writing for \((Double(writing) / 1e9).seconds)"
                if let callSite = holder.callSite { text += ", since \(callSite)" }
            } else {
                text += "holds the write lock"
            }
            if holder.liveness == .stopped { text += "; it is stopped (SIGSTOP)" }
            return text + waiting
        case .stranger(let pid, _) where pid == Self.ownPID:
            return """
                another connection of this process (pid \(pid)) holds the write lock, and does not take turns: another library has opened \
                it (attach its connection with a RawHandle), or it was opened before the database's \(ControlBlock.ending) file was \
                removed\(waiting)
                """
        case .stranger(let pid, let name):
            return """
                \(Self.quoted(name))(pid \(pid)) holds the write lock, and does not take turns: it does not use Roundtable, or its \
                \(ControlBlock.ending) file was removed while it had the database open\(waiting)
                """
        case .obstruction(let lock):
            return """
                \(lock.party) holds a read lock on \(lock.name), which keeps all writers out, and which no program of SQLite holds for longer \
                than a moment: end that process\(waiting)
                """
        case .reader(let pid, let name):
            return """
                \(Self.quoted(name))(pid \(pid)) is reading it, which blocks writers as long as the database has a rollback \
                journal\(waiting)
                """
        case .unknown:
            return "another connection holds a lock ('lsof' lists the processes that have the file open)\(waiting)"
        }
    }

    private static var ownPID: Int32 { ProcessIdentity.current.pid }

    private static func quoted(_ name: String?) -> String { name.map { "'\($0)' " } ?? "" }
}
