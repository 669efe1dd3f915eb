/// What a peer does with the extensions of `ExtensionWorld`.
package enum ExtensionCommand: Codable, Sendable {
    /// Opens the database as the program of a revision; 0 for one that knows of none.
    case open(path: String, revision: Int)
    /// Random transactions. The reply's number is how many were committed.
    case write(seed: UInt64, count: Int)
    /// Follows the views until a command comes. The reply's number is how many changes were told, its message what was wrong.
    case follow
}
