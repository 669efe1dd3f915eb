import Foundation
import RoundtableKernel

/// Who has a database file open, as far as the control block and the system's list of locks tell. (The system lists them on Linux only.)
struct FileUsers {
    let path: String

    init(databasePath path: String) { self.path = path }

    /// - parameter writing: only those who write, or may.
    func names(writing: Bool) -> [String] {
        let block = try? ControlBlock.open(forDatabaseAt: path, writable: false)
        let participants = (block?.participants() ?? []).filter { $0.liveness != .dead }
        let named = participants.filter { !writing || $0.role == .readWrite }.map(\.name)
        // Whoever has a database in WAL mode open holds a lock, and may write at any time. Without WAL, those who hold one use it now.
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
