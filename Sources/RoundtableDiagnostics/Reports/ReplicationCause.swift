/// Why a replication or a read replica does not work. The files of `roundtable replicate` and `roundtable follow` have this code.
package enum ReplicationCause: String, CaseIterable, ReportCause {
    case notStarted = "not_started"
    case ended
    case stopped
    case silent
    case idle
    case full
    case credentials
    case noBucket = "no_bucket"
    case unreachable
    case fileAccess = "file_access"
    case unreadableDatabase = "unreadable_database"
    case otherDatabase = "other_database"
    case message
    case fullWAL = "full_wal"
    case unknownWriter = "unknown_writer"
    case notFenced = "not_fenced"
    case nothingYet = "nothing_yet"
    case notCopied = "not_copied"
    case replaced

    package var what: String {
        switch self {
        case .notStarted: "Litestream is not started"
        case .ended: "Litestream has ended"
        case .stopped: "Litestream is stopped"
        case .silent: "Litestream does not answer, as when it cannot reach the replica"
        case .idle: "Litestream has synced nothing for too long"
        case .full: "the disk is full"
        case .credentials: "the replica refuses the credentials"
        case .noBucket: "the replica's bucket does not exist"
        case .unreachable: "the replica cannot be reached"
        case .fileAccess: "a file cannot be written"
        case .unreadableDatabase: "Litestream cannot read the database"
        case .otherDatabase: "the database and the replica do not belong together"
        case .message: "Litestream reports an error"
        case .fullWAL: "Litestream is not started, because the WAL cannot be emptied"
        case .unknownWriter: "whether another machine is the writer is not known"
        case .notFenced: "another machine is the writer, and the database cannot be marked as fenced"
        case .nothingYet: "there is no state at the URL yet"
        case .notCopied: "a state cannot be copied into the database"
        case .replaced: "what is at the URL has been replaced, and is older than this database"
        }
    }

    package var advice: String {
        switch self {
        case .notStarted: "It is tried again. If it does not recover, check the program and the URL"
        case .ended: "It is started again"
        case .stopped: "Continue it, or end it, and it is started again"
        case .silent: "Check that the replica's address can be reached from here. Litestream tries again by itself"
        case .idle: "Check the connection to the replica, and that the database's disk is not full"
        case .full: "Make room: Litestream keeps a copy of recent changes beside the database"
        case .credentials:
            """
            Set those that the replica needs, for S3 LITESTREAM_ACCESS_KEY_ID and LITESTREAM_SECRET_ACCESS_KEY, and start \
            'roundtable replicate' again
            """
        case .noBucket: "Create it, or correct the URL"
        case .unreachable: "Check the address and the network. Litestream tries again by itself"
        case .fileAccess: "Give the user that runs Litestream access to the database's folder and to the replica"
        case .unreadableDatabase: "It reads no encrypted databases"
        case .otherDatabase: "Replicate to an empty place, or restore the database from this replica first"
        case .message:
            """
            Litestream tries again by itself. If it does not recover, look at its errors in the output of 'roundtable replicate' or \
            'roundtable follow'
            """
        case .fullWAL:
            "End the read that holds it. Without an empty WAL, commits could be missing in the replica. It is tried again"
        case .unknownWriter: "It is tried again"
        case .notFenced: "End the programs that write here. It is tried again"
        case .nothingYet: "Start 'roundtable replicate' on the writer's machine, and check that the URLs are the same"
        case .notCopied: "It is tried again. Check the disk, and who holds the database's write lock"
        case .replaced:
            """
            To follow it all the same, end the programs that read here, remove the database with its -replica file, and start \
            'roundtable follow' again
            """
        }
    }
}
