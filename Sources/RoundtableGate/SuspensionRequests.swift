// Rule F1: A gate is closed while its database or its process is suspended and no protected access of either is running, while the system's
// last assertion has expired, or while a stop signal is obeyed (rule F8). Nothing but `SuspensionRequests` decides it. A protected access
// of the process does not open a database that is suspended by itself. One that no assertion backs keeps no gate open that is closed after
// it began: the later suspension wins.

/// The requests to suspend a database, and the protected accesses that keep it open nevertheless. It is a pure value, a
/// part of ``GateMachine`` (rule F1).
package struct SuspensionRequests: Hashable, Sendable {
    /// The requests for one database, or for all databases of the process.
    package struct Request: Hashable, Sendable {
        package var isSuspended = false
        /// The running protected accesses, by number.
        var protections: [Int: Protector] = [:]
    }

    struct Protector: Hashable, Sendable {
        var name: String
        /// Whether the system backs the access by an assertion, and does not freeze the process meanwhile.
        var isBacked: Bool
    }

    /// The requests for this database.
    package var own = Request()
    /// The requests for all databases of the process.
    var process = Request()
    /// Whether the process is about to be stopped by a signal. This overrides all other requests.
    var isStopping = false
    /// Whether the system takes the process's last assertion back, or refuses one to a process without notices (rule F5b), and is about
    /// to freeze the process. This overrides all other requests.
    var isExpired = false

    /// Removes the protected accesses without an assertion, because they cannot keep the system from freezing the process.
    mutating func dropUnbackedProtections() {
        own.protections = own.protections.filter { $0.value.isBacked }
        process.protections = process.protections.filter { $0.value.isBacked }
    }

    var isClosed: Bool {
        if isExpired || isStopping { return true }
        if !own.protections.isEmpty { return false }
        return own.isSuspended || process.isSuspended && process.protections.isEmpty
    }

    /// The names of the protected accesses that keep the gate open although it is requested to close.
    var protectors: [String] {
        let all = Array(own.protections.values) + (own.isSuspended ? [] : Array(process.protections.values))
        return all.map(\.name).sorted()
    }
}
