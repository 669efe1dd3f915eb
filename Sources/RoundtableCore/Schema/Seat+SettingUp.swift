import GRDB
import RoundtableGate
import RoundtableKernel

extension Seat {
    convenience init(
        settingUp file: DatabaseFile,
        as author: String,
        options: SharedDatabase.Options,
        gate: SuspensionGate
    ) {
        self.init(
            databasePath: file.path,
            author: author,
            role: .readWrite,
            settings: options.turnSettings,
            access: file.access,
            stop: gate.waits,
            outer: options.turnsOf.map { Seat(ofLender: $0, as: author, options: options, gate: gate) }
        )
    }

    /// A seat for the turns of another database (rule T14), whose control block its own participants have made.
    private convenience init(
        ofLender lender: SharedDatabase,
        as author: String,
        options: SharedDatabase.Options,
        gate: SuspensionGate
    ) {
        self.init(
            databasePath: lender.path,
            author: author,
            role: .readWrite,
            settings: options.turnSettings,
            access: (try? System.status(ofFileAt: lender.path)).flatMap { $0 }.map(FileAccess.init),
            stop: gate.waits,
            outer: lender.lender.map { Seat(ofLender: $0, as: author, options: options, gate: gate) },
            // The list may lack a lock if others change while it is read.
            isNotWritten: { [path = lender.path] in
                (0..<10).allSatisfy { _ in SystemLocks.writer(databasePath: path) == nil }
            }
        )
    }

    /// Runs `body` with the turn for setting up (rules S2, S3). Without coordination, SQLite's lock and rule S4 protect the set-up.
    ///
    /// - throws: ``GateClosed``; `SQLITE_BUSY` with the name of the process that sets up; what `body` throws.
    func withSetupTurn<T>(
        _ file: DatabaseFile,
        _ gate: SuspensionGate,
        until deadline: Nanoseconds,
        isWriteLockFree: () -> Bool,
        _ body: () throws -> T
    ) throws -> T {
        let requested = MonotonicClock.now
        let outcome = takeTurn(
            at: requested,
            until: deadline,
            callSite: nil,
            settingUp: true,
            isWriteLockFree: isWriteLockFree
        )
        if outcome == .cancelled { throw GateClosed(gate: gate) }
        guard outcome != .timedOut else {
            let holder = LockHolder.setter(among: others)
            let waited = (Double(MonotonicClock.now - requested) / 1e9).seconds
            throw DatabaseError(
                resultCode: .SQLITE_BUSY,
                message: """
                    \(file.path): waited \(waited) for \(holder). Raise setupTimeout, or see what it does: roundtable status
                    """
            )
        }
        defer { releaseTurn(settingUp: true) }
        return try body()
    }
}

extension LockHolder {
    /// Names the process that creates or migrates the database, or writes it.
    static func setter(among others: [ParticipantRecord]) -> String {
        let setter = others.first { $0.state == .settingUp && $0.hasTurn }
        guard let holder = setter ?? others.first(where: \.hasTurn) else {
            return "another process, which creates, migrates or moves the database"
        }
        let stopped = holder.liveness == .stopped ? " and is stopped (SIGSTOP)" : ""
        let what = setter == nil ? "writes the database" : "creates, migrates or moves the database"
        return "\(holder.name), which \(what)\(stopped)"
    }
}
