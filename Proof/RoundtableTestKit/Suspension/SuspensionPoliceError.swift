import Foundation

/// The reason why the police could not do its work.
public struct SuspensionPoliceError: Error, Equatable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }

    init(_ what: String, errno: Int32) {
        description = "\(what): \(String(cString: strerror(errno))) (errno \(errno))"
    }
}
