/// What a process that is suspended must not hold.
///
/// The first five are what iOS is said to look at, see ``SuspensionLaw/documented``; the others are for the cautious.
public enum SuspensionRule: String, Codable, CaseIterable, Sendable {
    /// An exclusive lock on the SHARED range of a database: SQLite's EXCLUSIVE.
    case exclusive
    /// Any lock from PENDING to SHARED of a database that is not in WAL mode, a reader's too.
    case rollbackJournal
    /// WRITE, byte 120 of the `-shm` file of a database in WAL mode: a write transaction.
    case walWriter
    /// RECOVER, byte 122 of that file.
    case walRecovery
    /// Any lock on a file that is no database, or whose header cannot be read, as an encrypted database's.
    case lockedFile

    /// READ0 to READ4, bytes 123 to 127 of a `-shm` file: a read transaction, or a checkpoint.
    case readMark
    /// CKPT, byte 121 of that file.
    case checkpoint
    /// Any lock that no other rule is about: SHARED of a database in WAL mode, which an idle connection keeps; the
    /// deadman's switch, byte 128 of its `-shm`, likewise; files that are exempt by their names.
    case anyLock

    /// Why it is forbidden, as a clause.
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
