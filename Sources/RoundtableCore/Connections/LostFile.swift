import Foundation
import GRDB
import RoundtableKernel

/// A file of an open database that is not in its place any more, because another program has replaced, removed or moved it (rules W12).
public struct LostFile: Sendable, Equatable {
    public enum File: String, Sendable, Codable {
        case database
        /// The file `-wal`.
        case wal
        /// The file `-shm`.
        case walIndex = "wal_index"
    }

    /// What was found in the place of the file.
    public enum Finding: String, Sendable, Codable {
        /// Nothing: the file was removed, or moved away.
        case missing
        /// Another file.
        case replaced
    }

    public var file: File
    public var finding: Finding
    /// When it was found.
    public var noticed: Date

    init(_ loss: DatabaseFiles.Loss) {
        file = File(loss.part)
        finding = loss.finding == .missing ? .missing : .replaced
        noticed = Date(timeIntervalSince1970: TimeInterval(loss.time))
    }

    /// What has happened, without the last full stop.
    func text(path: String) -> String {
        let name = path + DatabaseFiles.Part.allCases.first { File($0) == file }!.suffix
        let what =
            switch finding {
            case .missing: "the file that this process has open was removed, or moved away"
            case .replaced: "another file is in the place of the one that this process has open"
            }
        return "\(name): \(what) (found at \(noticed.formatted(.iso8601)))"
    }
}

extension LostFile.File {
    fileprivate init(_ part: DatabaseFiles.Part) {
        self =
            switch part {
            case .database: .database
            case .wal: .wal
            case .walIndex: .walIndex
            }
    }
}

extension DatabaseFiles {
    private func error(_ loss: Loss) -> SharedDatabaseError { .fileLost(path: databasePath, LostFile(loss)) }

    /// The error of every access after a loss; nil when there is none so far.
    var failure: SharedDatabaseError? { loss.map(error) }

    /// Looks whether the files are in their places, unless that was seen less than 10 ms ago (rule W12b).
    ///
    /// - throws: ``SharedDatabaseError/fileLost(path:_:)``.
    func check(at now: Nanoseconds = MonotonicClock.now) throws {
        if let loss = lookIfDue(at: now) { throw error(loss) }
    }

    /// Looks whether the files are in their places, whenever that was seen last.
    ///
    /// - throws: ``SharedDatabaseError/fileLost(path:_:)``.
    package func requireInPlace() throws { if let loss = look() { throw error(loss) } }

    /// Replaces an error that SQLite reports, such as `SQLITE_IOERR_SHORT_READ`, by the loss of a file, if that is the cause.
    func explained(_ error: any Error) -> any Error {
        guard let code = (error as? DatabaseError)?.resultCode,
            [.SQLITE_IOERR, .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_CANTOPEN, .SQLITE_READONLY].contains(code)
        else { return error }
        return look().map(self.error) ?? error
    }

    /// Records the files that a connection has open, after it has read.
    ///
    /// - throws: ``SharedDatabaseError/fileLost(path:_:)``, when they are not those of the other connections.
    /// - returns: false when it is not known which file the connection has open (``opened(_:_:)``).
    func note(_ db: Database) throws -> Bool {
        let began = MonotonicClock.now
        guard record(db) else { return false }
        if let loss = look(since: began) { throw error(loss) }
        return true
    }

    /// Does the same without a look whether they are those of the other connections.
    @discardableResult
    func record(_ db: Database) -> Bool {
        guard let connection = OwnConnection.number(db) else { return true }
        return opened(connection, db.walFile == nil ? [.database] : Part.allCases)
    }
}
