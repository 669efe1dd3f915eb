import GRDB
import RoundtableGate
import Synchronization

/// The gate was closed before a database was open.
struct GateClosed: Error {
    let gate: SuspensionGate
}

extension SharedDatabase.Options {
    /// Makes the gate of a database that is being opened, which a cancellation of the opening closes.
    ///
    /// - throws: `CancellationError`.
    func openingGate(_ path: String) throws -> SuspensionGate {
        let gate = SuspensionGate(
            path: path,
            policy: suspensionPolicy,
            process: turnsOf?.gate.process ?? process,
            report: { [reporter] in reporter.report($0) }
        )
        turnsOf?.gate.add(dependent: gate)
        try cancellation?.begin(gate)
        return gate
    }
}

extension SuspensionGate {
    /// Runs `body`, which opens connections, creates and migrates, inside the gate.
    ///
    /// - throws: ``GateClosed`` when the gate is closed, or closes before `body` is done. The opening can be retried.
    func opening<T>(_ body: () throws -> T) throws -> T {
        guard let visit = enter(.opening, at: nil, isRunning: true) else { throw GateClosed(gate: self) }
        var interruption: Interruption?
        defer { leave(visit, interruption) }
        do {
            return try body()
        } catch let error as DatabaseError
            where isAborted && [.SQLITE_INTERRUPT, .SQLITE_ABORT].contains(error.resultCode)
        {
            interruption = .rolledBack
            throw GateClosed(gate: self)
        } catch let error as DatabaseError
            where error.resultCode == .SQLITE_BUSY && hasGivenUp.load(ordering: .acquiring)
        {
            throw GateClosed(gate: self)
        }
    }

    /// Checks between two steps of opening that the gate is open.
    func checkOpen() throws {
        if isClosed { throw GateClosed(gate: self) }
    }

    /// - throws: ``SharedDatabaseError/shuttingDown(path:)``.
    func checkNotShuttingDown() throws {
        if isShuttingDown { throw SharedDatabaseError.shuttingDown(path: path) }
    }
}
