import RoundtableCore
import RoundtableKernel

/// The participants alone, read from the control block: who holds the turn, who waits, and how many turns each has taken.
///
/// It reads neither the database nor the change ring, so that it costs little enough to be repeated many times a second.
package struct TurnLook: Sendable {
    package var participants: [ParticipantStatus]

    /// - parameter path: the path of the database.
    /// - returns: nil when the control block cannot be used.
    package init?(ofDatabaseAt path: String) {
        guard let block = try? ControlBlock.open(forDatabaseAt: path, writable: false) else { return nil }
        participants = block.participants().map { ParticipantStatus($0) }
    }
}
