import GRDB
import RoundtableKernel

/// Read replicas: databases that a follower keeps up to date with a database on another machine (rules Q).
package enum ReadReplica {
    /// The ending of the file that marks a database as a read replica.
    package static let suffix = "-replica"

    /// Whether a follower keeps this database, or is about to create it.
    package static func exists(databasePath path: String) -> Bool {
        (try? System.status(ofFileAt: path + suffix)) ?? nil != nil
    }

    /// The error of a write, and of opening for writing.
    package static func refusal(databasePath path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_READONLY,
            message: """
                \(path): is a read replica, which follows a database on another machine ('roundtable follow'), and would lose what is \
                written here: open it with openReplica(at:), and submit changes to an Outbox, which carries them to the writer's machine
                """
        )
    }

    /// - throws: `SQLITE_READONLY` if the database is a read replica.
    static func refuse(databasePath path: String) throws {
        if exists(databasePath: path) { throw refusal(databasePath: path) }
    }
}
