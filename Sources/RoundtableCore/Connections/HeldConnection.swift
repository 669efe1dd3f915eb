/// A connection that could not be closed in time.
struct HeldConnection: Equatable, Sendable {
    enum Use: String, Sendable {
        case reading, writing, checkpoint, snapshot, observation
    }

    var use: Use
    /// Where it was made, as `File.swift:12`; nil when that is not known.
    var callSite: String?
    /// Whether a user's statement or cursor that has outlived its access holds the connection. Otherwise a running access holds
    /// it.
    var isByStatement = false
}

extension HeldConnection: CustomStringConvertible {
    var description: String {
        let site = callSite.map { " made at \($0)" } ?? ""
        return isByStatement
            ? "a statement or cursor that outlived its access (\(use.rawValue)\(site))"
            : "an access that is running (\(use.rawValue)\(site))"
    }
}
