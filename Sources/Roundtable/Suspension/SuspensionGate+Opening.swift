import GRDB

/// The gate was closed before a database was open.
struct GateClosed: Error {
    let gate: SuspensionGate
}

extension SuspensionGate {
    /// Opens connections, creates, migrates.
    ///
    /// - throws: ``GateClosed`` when the gate is closed, or was closed before it was done: it can be tried again.
    func opening<T>(_ body: () throws -> T) throws -> T {
        guard let visit = enter(.opening, at: nil, isRunning: true) else { throw GateClosed(gate: self) }
        var wasRolledBack = false
        defer { leave(visit, wasRolledBack: wasRolledBack) }
        do {
            return try body()
        } catch let error as DatabaseError
            where isDoomed && [.SQLITE_INTERRUPT, .SQLITE_ABORT].contains(error.resultCode)
        {
            wasRolledBack = true
            throw GateClosed(gate: self)
        }
    }

    /// Between two steps of opening.
    func checkOpen() throws {
        if isClosed { throw GateClosed(gate: self) }
    }
}
