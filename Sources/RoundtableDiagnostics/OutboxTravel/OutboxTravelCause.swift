/// Why a round between the machines of an outbox has failed, or has left something undone. The files of an outbox have this code; the
/// sentences here are those of the program that reads it.
package enum OutboxTravelCause: String, CaseIterable, ReportCause {
    case notStarted = "not_started"
    case full
    case credentials
    case unknownStore = "unknown_store"
    case certificates
    case noBucket = "no_bucket"
    case unreachable
    case fileAccess = "file_access"
    case program
    case incompleteSnapshot = "incomplete_snapshot"
    case unreadableCommand = "unreadable_command"
    case newerCommand = "newer_command"
    case claimNotShown = "claim_not_shown"
    case otherCollector = "other_collector"
    case takenOver = "taken_over"
    case other

    package var what: String {
        switch self {
        case .notStarted: "rclone cannot be started"
        case .full: "the disk or the store is full"
        case .credentials: "the store refuses the credentials"
        case .unknownStore: "rclone does not know the store"
        case .certificates: "the certificates are not usable"
        case .noBucket: "the store's bucket does not exist"
        case .unreachable: "the store cannot be reached"
        case .fileAccess: "a file cannot be written or read"
        case .program: "rclone has failed"
        case .incompleteSnapshot: "what is to be published is not a complete snapshot file"
        case .unreadableCommand: "a command cannot be read"
        case .newerCommand: "a command is of a newer version of Roundtable"
        case .claimNotShown: "the store does not show the claim of this collector yet"
        case .otherCollector: "another collector brings the commands of this store into its own outbox"
        case .takenOver: "another collector has taken over the store"
        case .other: "the round has failed"
        }
    }

    /// What to do about it, as a sentence without its full stop.
    package var advice: String { advice(isRepeated: true) }

    /// - parameter isRepeated: whether there is another round after this one.
    package func advice(isRepeated: Bool) -> String {
        let again = isRepeated ? "It is tried again" : "Then run this again"
        let first = isRepeated ? again : "Run this again"
        return switch self {
        case .notStarted: "Install it again. \(again)"
        case .full: "Make room. \(again)"
        case .credentials: "Correct them in rclone's configuration or in the environment, and start this again"
        case .unknownStore: "Define it with 'rclone config', or correct the URL, and start this again"
        case .certificates: "Unset AWS_CA_BUNDLE, or let it name a readable file, and check the store's certificate"
        case .noBucket: "Create it, or correct the URL"
        case .unreachable: "Check the address and the network. \(again)"
        case .fileAccess: "Give the user that runs this access to the store and to the outbox"
        case .program: "\(first). If it does not recover, try 'rclone lsf' with that place"
        case .incompleteSnapshot: "Start the program that publishes it, or correct --publish"
        case .unreadableCommand: "Make the file readable for the user that runs this"
        case .newerCommand: "Update this program, and start it again"
        case .claimNotShown: isRepeated ? "Nothing: it looks again" : first
        case .otherCollector: "End it; or, if it is gone for good, start this one with --take-over"
        case .takenOver:
            "Nothing, if that was intended. To bring commands here again, start this one with --take-over"
        case .other: "\(first). If it does not recover, check the folder of the outbox and its disk"
        }
    }
}
