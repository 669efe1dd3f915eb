/// A command of a test to a peer that uses the derived tables of `DerivedTableWorld`.
package enum DerivedTableCommand: Codable, Sendable {
    /// Opens the database as the program of this revision; 0 for a program that declares no derived tables.
    case open(path: String, revision: Int)
    /// Makes `count` random transactions. The reply's number is the number of committed transactions.
    case write(seed: UInt64, count: Int)
    /// Follows the views until a command arrives. The reply's number is the number of reported changes, its message the first error.
    case follow
}
