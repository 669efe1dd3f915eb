/// A kind of lock that a suspended process must not hold.
///
/// The first five rules are those that iOS is reported to apply, see ``SuspensionLaw/documented``. The others are stricter.
public enum SuspensionRule: String, Codable, CaseIterable, Sendable {
    /// An exclusive lock on the SHARED range of a database: SQLite's EXCLUSIVE.
    case exclusive
    /// Any lock from PENDING to SHARED of a database that is not in WAL mode, including a reader's lock.
    case rollbackJournal
    /// WRITE, byte 120 of the `-shm` file of a database in WAL mode: a write transaction.
    case walWriter
    /// RECOVER, byte 122 of the `-shm` file of a database in WAL mode: recovery of the WAL.
    case walRecovery
    /// Any lock on a file that is not a plain SQLite database, such as an encrypted database.
    case lockedFile

    /// READ0 to READ4, bytes 123 to 127 of a `-shm` file: a read transaction, or a checkpoint.
    case readMark
    /// CKPT, byte 121 of a `-shm` file: a checkpoint.
    case checkpoint
    /// Any lock that no other rule covers. An idle connection keeps two of them: SHARED of a database in WAL mode, and the deadman's
    /// switch, byte 128 of its `-shm`. Locks on files that are exempt by their names are covered, too.
    case anyLock

    /// The reason why the lock is forbidden, as a clause.
    var reason: String {
        switch self {
        case .exclusive: "a database is locked exclusively"
        case .rollbackJournal: "a database that is not in WAL mode is locked, as its readers do, too"
        case .walWriter: "a write transaction is open"
        case .walRecovery: "the WAL is being recovered"
        case .lockedFile: "a file that is no plain SQLite database is locked"
        case .readMark: "a read transaction or a checkpoint is under way"
        case .checkpoint: "a checkpoint is under way"
        case .anyLock: "a file is locked"
        }
    }
}
