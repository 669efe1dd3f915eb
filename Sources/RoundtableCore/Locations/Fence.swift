import GRDB
import RoundtableKernel

/// Fences: databases that another machine has replaced as the writer (rule D6).
package enum Fence {
    /// The ending of the file that marks a database as fenced.
    package static let suffix = "-fenced"

    package static func exists(databasePath path: String) -> Bool {
        (try? System.status(ofFileAt: path + suffix)) ?? nil != nil
    }

    /// The error of a write, and of opening for writing.
    package static func refusal(databasePath path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_READONLY,
            message: """
                \(path): is fenced, because another machine has been promoted to be the writer ('roundtable promote'), and what is written \
                here would not reach it: read here what it may lack, follow it with 'roundtable follow' at another path, or take over with \
                'roundtable promote --replace'; 'roundtable status' says which machine it is
                """
        )
    }

    /// - throws: `SQLITE_READONLY` if the database is fenced.
    static func refuse(databasePath path: String) throws {
        if exists(databasePath: path) { throw refusal(databasePath: path) }
    }

    /// Checks before a write, without a system call unless there is a reason.
    ///
    /// - parameter mayBeFenced: what the control block of the participant says; nil when it has none.
    /// - throws: `SQLITE_READONLY` if the database is fenced.
    static func refuse(databasePath path: String, ifSo mayBeFenced: Bool?) throws {
        if mayBeFenced ?? true { try refuse(databasePath: path) }
    }
}

extension SharedDatabase {
    /// Lets the participants that are open look for the mark of a fenced database. Call it after the mark was written. Safe from any
    /// thread.
    package func announceFence() { seat.participant?.block.announceFence() }
}
