import GRDB
import Synchronization

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
        var interruption: Interruption?
        defer { leave(visit, interruption) }
        do {
            return try body()
        } catch let error as DatabaseError
            where isDoomed && [.SQLITE_INTERRUPT, .SQLITE_ABORT].contains(error.resultCode)
        {
            interruption = .rolledBack
            throw GateClosed(gate: self)
        } catch let error as DatabaseError
            where error.resultCode == .SQLITE_BUSY && hasGivenUp.load(ordering: .acquiring)
        {
            throw GateClosed(gate: self)
        }
    }

    /// Between two steps of opening.
    func checkOpen() throws {
        if isClosed { throw GateClosed(gate: self) }
    }
}
