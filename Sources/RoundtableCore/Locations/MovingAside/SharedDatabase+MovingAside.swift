import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel

extension SharedDatabase {
    /// Moves all files of a database into a folder beside it, while any number of participants have it open: for a database that is
    /// damaged, or that is to be looked at later (<doc:CopyingAndRestoring>). The next opening creates a new database.
    ///
    /// Writes that run end first. Every participant, also one of this process, then gets ``SharedDatabaseError/fileLost(path:_:)`` from its
    /// next access, and from its observations: it closes the database, and opens it again. No participant's commit is lost, because the
    /// `-wal` is moved too. The file is not opened here, so it may be damaged, and needs no key.
    ///
    /// The folder is named `NAME-quarantined-` and the time. If this process is killed meanwhile, the next call, or the next opening for
    /// writing, completes what it has begun. Commands that wait in the outbox stay, and are applied to the new database.
    ///
    /// - Parameters:
    ///   - url: the database file.
    ///   - author: the name of this participant for other processes.
    ///   - options: ``Options/setupTimeout`` limits the wait for writes and migrations that run, and ``Options/whileSuspended`` says what this does
    ///     while the process is suspended.
    /// - returns: the database in its new folder.
    /// - throws: ``DatabaseLocationError/noSuchFile(path:)``; ``SharedDatabaseError/openInOtherPrograms(path:names:)``; other errors of
    ///   ``SharedDatabaseError``; `DatabaseError` with `SQLITE_BUSY`, or with `SQLITE_CANTOPEN` and the system's reason; `CancellationError`.
    public static func quarantine(at url: URL, as author: String, options: Options = Options()) async throws -> URL {
        try await whileOpen(options) { try MovingAside(url, author, $0).quarantine() }
    }

    /// Moves the files aside as the async function of the same name does, and blocks the calling thread.
    @_disfavoredOverload
    public static func quarantine(at url: URL, as author: String, options: Options = Options()) throws -> URL {
        try whileOpen(options) { try MovingAside(url, author, $0).quarantine() }
    }

    /// Removes all files of a database, while any number of participants have it open, as when a user signs out. The next opening creates a
    /// new database.
    ///
    /// As ``quarantine(at:as:options:)`` does, but nothing is kept, and it is no error if there is no database. The space on the disk is
    /// free when the last participant has closed the old files.
    ///
    /// - throws: as ``quarantine(at:as:options:)``, except for ``DatabaseLocationError/noSuchFile(path:)``.
    public static func erase(at url: URL, as author: String, options: Options = Options()) async throws {
        try await whileOpen(options) { try MovingAside(url, author, $0).erase() }
    }

    /// Removes the files as the async function of the same name does, and blocks the calling thread.
    @_disfavoredOverload
    public static func erase(at url: URL, as author: String, options: Options = Options()) throws {
        try whileOpen(options) { try MovingAside(url, author, $0).erase() }
    }
}

/// Moves the files of a database aside as a participant (rule S16).
private struct MovingAside {
    private let file: DatabaseFile
    private let author: String
    private let options: SharedDatabase.Options

    init(_ url: URL, _ author: String, _ options: SharedDatabase.Options) throws {
        PlatformLifecycle.followOnce()
        file = try DatabaseFile(shared: DatabaseURI(url))
        (self.author, self.options) = (author, options)
        try ReadReplica.refuse(databasePath: file.path)
        try Fence.refuse(databasePath: file.path)
    }

    func quarantine() throws -> URL {
        guard try file.size != nil || MovedDatabase(file.path).isBeingMoved, let path = try perform(.quarantine) else {
            throw DatabaseLocationError.noSuchFile(path: file.path)
        }
        return URL(fileURLWithPath: path)
    }

    func erase() throws {
        let hasCompanion = try ["-wal", "-journal", "-shm"].contains {
            try System.status(ofFileAt: file.path + $0) != nil
        }
        if try file.size != nil || hasCompanion || MovedDatabase(file.path).isBeingMoved { _ = try perform(.erasure) }
    }

    private func perform(_ purpose: MovedDatabase.Purpose) throws -> String? {
        try file.checkWritable()
        let gate = try options.openingGate(file.path)
        let path = try gate.opening { try moved(purpose, gate) }
        // What is done is done, even if the task was cancelled meanwhile.
        try? options.cancellation?.end()
        return path
    }

    /// Waits for a moment, without the turn, while programs have the database open that are no participants, such as a tool that looks at
    /// it, or a process that is opening it.
    private func moved(_ purpose: MovedDatabase.Purpose, _ gate: SuspensionGate) throws -> String? {
        let seat = Seat(settingUp: file, as: author, options: options, gate: gate)
        defer { seat.leave() }
        let users = FileUsers(databasePath: file.path)
        let began = MonotonicClock.now
        let deadline = began.addingSaturating(options.setupTimeout.nanoseconds)
        while true {
            do {
                return try seat.withSetupTurn(file, gate, until: deadline, isWriteLockFree: users.isNotWritten) {
                    try users.refuseStrangers()
                    return try MovedDatabase(file.path).move(purpose, seat)
                }
            } catch SharedDatabaseError.openInOtherPrograms
                where MonotonicClock.now < min(deadline, began + Self.patience)
            {
                try gate.checkOpen()
                MonotonicClock.sleep(50_000_000)
            }
        }
    }

    private static let patience: Nanoseconds = 2_000_000_000
}
