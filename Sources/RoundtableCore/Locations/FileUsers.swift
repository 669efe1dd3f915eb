import Foundation
import RoundtableKernel

/// The users of a database file, according to the control block and the system's list of locks. Only Linux has such a list.
struct FileUsers {
    let path: String

    init(databasePath path: String) { self.path = path }

    /// The names of the processes that have the file open.
    ///
    /// - parameter writing: whether to return only processes that write, or may write.
    func names(writing: Bool) -> [String] {
        let block = try? ControlBlock.open(forDatabaseAt: path, writable: false)
        let participants = (block?.participants() ?? []).filter { $0.liveness != .dead }
        let named = participants.filter { !writing || $0.role == .readWrite }.map(\.name)
        // In WAL mode, each process that has the database open holds a lock, and may write at any time. In other journal modes, a process
        // holds a lock only while it uses the database.
        let isWAL = (try? DatabaseHeader(databasePath: path)?.isWAL) ?? false
        let locking =
            if writing, !isWAL { [SystemLocks.writer(databasePath: path)].compactMap { $0 } } else {
                SystemLocks.users(databasePath: path)
            }
        let strangers = locking.filter { pid in !participants.contains { $0.isProcess(pid) } }.map { pid in
            (ProcessTable.name(pid).map { "'\($0)' " } ?? "") + "(pid \(pid))"
        }
        return named + strangers
    }
}
