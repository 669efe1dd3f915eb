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
        let participants = participants
        let named = participants.filter { !writing || $0.role == .readWrite }.map(\.name)
        // In WAL mode, each process that has the database open holds a lock, and may write at any time. In other journal modes, a process
        // holds a lock only while it uses the database.
        let isWAL = (try? DatabaseHeader(databasePath: path)?.isWAL) ?? false
        let locking =
            if writing, !isWAL { [SystemLocks.writer(databasePath: path)].compactMap { $0 } } else {
                SystemLocks.users(databasePath: path)
            }
        return named + strangers(locking, participants)
    }

    /// Waits a moment for programs that have the database open and are no participants, such as a tool that looks at it.
    ///
    /// - throws: ``SharedDatabaseError/openInOtherPrograms(path:names:)``. The last of their connections that closes would remove the `-wal` that
    ///   is here then, which is that of another database.
    func refuseStrangers() throws {
        var backoff = Backoff(.milliseconds(2), upTo: .milliseconds(50))
        while true {
            let participants = participants
            let names = strangers(SystemLocks.users(databasePath: path), participants)
            if names.isEmpty { return }
            if backoff.failures == 8 { throw SharedDatabaseError.openInOtherPrograms(path: path, names: names) }
            MonotonicClock.sleep(backoff.next())
        }
    }

    /// Whether the system shows that nobody holds the WRITE lock. Only Linux shows locks.
    func isNotWritten() -> Bool {
        #if os(Linux)
            SystemLocks.writer(databasePath: path) == nil
        #else
            false
        #endif
    }

    /// The names of the processes that have the database open, and do not only wait to open it.
    var openers: [String] {
        let participants = participants
        let named = participants.filter { $0.files.map { $0.database != 0 } ?? false }.map(\.name)
        return named + strangers(SystemLocks.users(databasePath: path), participants)
    }

    /// Those that live, as far as one can tell.
    private var participants: [ParticipantRecord] {
        let block = try? ControlBlock.open(forDatabaseAt: path, writable: false)
        return (block?.participants() ?? []).filter { $0.liveness != .dead }
    }

    private func strangers(_ pids: [Int32], _ participants: [ParticipantRecord]) -> [String] {
        pids.filter { pid in !participants.contains { $0.isProcess(pid) } }.map { pid in
            (ProcessTable.name(pid).map { "'\($0)' " } ?? "") + "(pid \(pid))"
        }
    }
}
