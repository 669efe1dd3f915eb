import Foundation
import GRDB
import Roundtable
import RoundtableToolSupport

/// The tool's access to a database of any program. Reads leave it unchanged, and writes share it.
struct DatabaseAccess {
    let url: URL
    let author: String
    let options: SharedDatabase.Options

    // MARK: Reading

    func read(_ run: ScriptRun, _ permission: ScriptRun.Permission) throws -> ScriptRun.Outcome {
        do {
            return try readUnexplained(run, permission)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY {
            let isHot = error.extendedResultCode == .SQLITE_READONLY_ROLLBACK
            if isHot, permission == .readUnlessWriting, run.script.statements.contains(where: \.surelyWrites) {
                throw ScriptRun.NeedsWriting()
            }
            throw isHot ? cutShort : refused
        } catch let error as DatabaseError {
            throw error.namingFile(url.path)
        }
    }

    private func readUnexplained(_ run: ScriptRun, _ permission: ScriptRun.Permission) throws -> ScriptRun.Outcome {
        // A database that no process has open is read without locks. If a process opens it meanwhile, the result may be
        // inconsistent, so it is read again.
        for _ in 0..<3 {
            let onlooker = try Onlooker(url)
            guard onlooker.header == nil || onlooker.manner == .still && !onlooker.missesWAL else { break }
            var run = run
            if onlooker.manner == .still { run.journalMode = "wal" }
            let result = Result {
                try onlooker.connection(waitingUpTo: options.busyTimeout).inDatabase { try run.run($0, permission) }
            }
            if try Onlooker(url).sees(sameAs: onlooker) { return try result.get() }
        }
        switch try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: author, options: options) {
        case .available(let database):
            defer { try? database.close() }
            return try database.unsafeRead { try run.run($0, permission) }
        case .unavailable:
            throw SharedDatabaseError.notAFile(path: url.path, reason: Onlooker.noSuchFile)
        }
    }

    /// Reads. If there is no file, it runs the script on an empty database in memory, to find out whether the script writes.
    func readOrRehearse(_ run: ScriptRun) throws -> ScriptRun.Outcome {
        if FileManager.default.fileExists(atPath: url.path) { return try read(run, .readUnlessWriting) }
        do {
            // This also reports a missing folder.
            _ = try Onlooker(url)
        } catch SharedDatabaseError.notAFile(_, Onlooker.noSuchFile) {
            // This is the expected error.
        }
        do {
            _ = try DatabaseQueue().inDatabase { try run.run($0, .readUnlessWriting) }
        } catch let error as DatabaseError where error.message?.hasPrefix("no such") != true {
            throw error
        } catch is DatabaseError {
            // The script needs a table that does not exist, because the file does not exist.
        }
        let folder = url.deletingLastPathComponent().path
        let hasFolder = FileManager.default.fileExists(atPath: folder)
        throw ToolError(
            hasFolder
                ? "\(url.path): there is no such file. Statements that write, such as CREATE TABLE, would create it."
                : "\(url.path): there is no such file, and no folder '\(folder)'"
        )
    }

    // MARK: Writing

    /// Writes. A script that Ctrl-Z interrupts is rolled back, and run again when the process continues.
    ///
    /// - parameter notice: called when the database was switched to WAL, and when the script is run again.
    func write(_ run: ScriptRun, notice: (String) -> Void) throws -> ScriptRun.Outcome {
        let header = FileManager.default.fileExists(atPath: url.path) ? try Onlooker(url).header : nil
        let database = try SharedDatabase.open(at: url, schema: .unmanaged, as: author, options: options)
        defer { try? database.close() }
        if header?.isWAL == false {
            notice("\(url.path): switched from rollback journal to WAL, which sharing needs.")
        }
        var interruption: DatabaseError?
        while true {
            do {
                if run.script.managesTransactions { return try writeInTurns(run, to: database) }
                return try database.writeWithoutTransaction { db in
                    if let interruption { notice("\(url.path): \(ToolError.stopped(interruption)). Running it again.") }
                    return try run.run(db, .readWrite)
                }
            } catch let error as DatabaseError where error.isSuspension {
                guard !run.script.managesTransactions else {
                    // This write waits until the process continues, so that the error does not appear after the shell's prompt.
                    database.writeWithoutTransaction { _ in }
                    throw partly(error)
                }
                interruption = error
            }
        }
    }

    /// Runs a script with its own transactions, in a turn for each slice of them, so that others write between them.
    private func writeInTurns(_ run: ScriptRun, to database: SharedDatabase) throws -> ScriptRun.Outcome {
        var progress = run.begin()
        var hasEnded = false
        while !hasEnded {
            hasEnded = try database.writeWithoutTransaction { db in
                let end = ContinuousClock.now + options.slice
                return try run.runOwnTransactions(&progress, db, .readWrite) { ContinuousClock.now >= end }
            }
        }
        return progress.outcome
    }

    // MARK: Errors

    /// The error of a suspension that interrupted a script with its own transactions.
    private func partly(_ error: DatabaseError) -> ToolError {
        ToolError(
            """
            \(url.path): \(ToolError.stopped(error)). What the script had committed before is kept: check the database, and run \
            the rest again.
            """
        )
    }

    private var cutShort: ToolError {
        ToolError(
            """
            \(url.path): a transaction was interrupted by a crash, and must be rolled back before the database can be read. Any \
            statement that writes does that, such as 'BEGIN IMMEDIATE; COMMIT'.
            """
        )
    }

    private var refused: ToolError {
        ToolError("\(url.path): opened read-only, and a statement writes. Leave --read-only out to write.")
    }
}

extension Onlooker {
    /// Whether the header, the sizes and the companion files are the same as before.
    fileprivate func sees(sameAs other: Onlooker) -> Bool {
        size == other.size && header == other.header && companions == other.companions
    }
}
