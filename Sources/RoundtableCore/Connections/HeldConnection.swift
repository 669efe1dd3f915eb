/// A connection that could not be closed in time.
struct HeldConnection: Equatable, Sendable {
    enum Use: Sendable {
        case reading, writing, checkpoint, snapshot, observation
    }

    var use: Use
    /// Where it was made, as `File.swift:12`; nil when that is not known.
    var callSite: String?
}
