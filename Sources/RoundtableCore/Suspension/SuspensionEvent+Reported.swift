import RoundtableGate

extension SuspensionEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .rolledBack, .interrupted: .warning
        case .held: .error
        }
    }

    package var text: String {
        switch self {
        case .rolledBack(let access):
            "rolled back, because the database was suspended: \(access). Try it again after resume(), or use withProtectedAccess"
        case .interrupted(let access):
            """
            interrupted, because the database was suspended: \(access). Its earlier commits are kept: check them before you try it again, \
            after resume()
            """
        case .held(let access):
            """
            a lock is still held at the suspension's deadline by \(access): \(access.kind.advice). A system that freezes \
            processes ends one that holds a lock (0xDEAD10CC of iOS)
            """
        }
    }
}

extension SuspensionReport.Access.Kind {
    /// How to hold no lock for as long as this access did.
    fileprivate var advice: String {
        switch self {
        case .write: "compute less between two statements"
        case .opening:
            "open the database earlier, while the app is active, or suspend with more notice; split long migrations"
        case .closing: "close the database earlier, while the app is active, or suspend with more notice"
        case .checkpoint:
            "suspend with more notice, because a step of a checkpoint cannot be interrupted while it waits for the disk"
        case .read: "read less at once, because reads of a database that is not in WAL mode hold a lock"
        }
    }
}
