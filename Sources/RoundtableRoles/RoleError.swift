import Foundation

/// An error of a role.
public enum RoleError: Error, Equatable, Sendable {
    /// This participant does not have the role any more: it was suspended, did not answer for longer than the patience of another one that
    /// waited, or has ended its term. Nothing was written.
    case lost(path: String, role: String, holder: String?)

    /// Another participant had the role for longer than the timeout.
    case timedOut(path: String, role: String, holder: String?)
}

extension RoleError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .lost(let path, let role, let holder):
            """
            \(path): this process does not have the role '\(role)' any more\(holder.map { ", which \($0) has" } ?? ""). Nothing was written. Stop \
            what only the holder may do, and acquire the role again.
            """
        case .timedOut(let path, let role, let holder):
            """
            \(path): the role '\(role)' was not free within the timeout\(holder.map { ": \($0) has it" } ?? ""). Try again later, or wait longer.
            """
        }
    }

    public var errorDescription: String? {
        switch self {
        case .lost: "Another program has taken this task over."
        case .timedOut: "Another program is doing this already."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .lost: nil
        case .timedOut: "Try again later."
        }
    }
}
