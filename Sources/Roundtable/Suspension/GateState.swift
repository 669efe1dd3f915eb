/// Who wants a database suspended, and who keeps it going all the same. Pure: ``SuspensionGate`` holds one under its lock
/// (rule F1).
struct GateState: Equatable, Sendable {
    /// What was asked for one database, or for all of the process.
    struct Wish: Equatable, Sendable {
        var isSuspended = false
        /// The protected accesses that run, by number.
        var protections: [Int: Protector] = [:]
    }

    struct Protector: Equatable, Sendable {
        var name: String
        /// By the system, which does not freeze the process meanwhile.
        var isBacked: Bool
    }

    /// Of this database.
    var own = Wish()
    /// Of all databases of the process.
    var process = Wish()
    /// The process is about to be stopped by a signal, whatever else was asked for.
    var isStopping = false
    /// The system takes the process's last assertion back: it is about to be frozen, whatever else was asked for.
    var isExpired = false

    /// What the system does not back cannot keep it from freezing the process.
    mutating func dropUnbackedProtections() {
        own.protections = own.protections.filter { $0.value.isBacked }
        process.protections = process.protections.filter { $0.value.isBacked }
    }

    var isClosed: Bool {
        if isExpired || isStopping { return true }
        if !own.protections.isEmpty { return false }
        return own.isSuspended || process.isSuspended && process.protections.isEmpty
    }

    /// Those that keep the gate open although it is to be closed.
    var protectors: [String] {
        let all = Array(own.protections.values) + (own.isSuspended ? [] : Array(process.protections.values))
        return all.map(\.name).sorted()
    }
}
