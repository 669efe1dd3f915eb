import Foundation
import RoundtableKernel

/// Who has a database file open, as far as the control block and the system's list of locks tell. (The system lists them on Linux only.)
struct FileUsers {
    let path: String

    init(databasePath path: String) { self.path = path }

    /// - parameter writing: only those who write, or may.
    func names(writing: Bool) -> [String] {
        let block = try? ControlBlock.open(at: ControlBlock.path(forDatabaseAt: path), writable: false)
        let participants = (block?.participants() ?? []).filter { $0.liveness != .dead }
        let named = participants.filter { !writing || $0.role == .readWrite }.map { "'\($0.author)' (pid \($0.pid))" }
        // Whoever has a database in WAL mode open holds a lock, and may write at any time. Without WAL, those who hold one use it now.
        let isWAL = (try? DatabaseHeader(databasePath: path)?.isWAL) ?? false
        let locking =
            if writing, !isWAL { [SystemLocks.writer(databasePath: path)].compactMap { $0 } } else {
                SystemLocks.users(databasePath: path)
            }
        let known = Set(participants.map(\.pid))
        let strangers = locking.filter { !known.contains($0) }.map { pid in
            (ProcessTable.name(pid).map { "'\($0)' " } ?? "") + "(pid \(pid))"
        }
        return named + strangers
    }
}
