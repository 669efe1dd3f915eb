import ArgumentParser
import Dispatch
import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

struct WatchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print a line for each commit of any program.",
        discussion: """
            Follows any database in WAL mode, whether the programs that write it know Roundtable or not. Those that do are \
            named, with the tables that a commit may have changed; after a commit of another program, anything may have changed. \
            Writes nothing, takes no turn, and sleeps while nothing is committed.

            'watching' on standard error says that from then on no commit is missed. Ends with Ctrl-C, or when its output is not \
            read any more.

            With --json, each change is one JSON object on a line of its own.

            Examples:
              roundtable watch app.db
              roundtable watch app.db --table player --count 1 --timeout 10 && echo "a player changed"
              roundtable watch app.db --json | jq -r .author
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Option(
        name: .customLong("table"),
        help: ArgumentHelp("Only commits that may have changed this table; repeat it for more.", valueName: "name")
    )
    var tables: [String] = []

    @Flag(help: "Print one JSON object a change.")
    var json = false

    @Option(parsing: .unconditional, help: ArgumentHelp("End after so many changes.", valueName: "n"))
    var count: Int?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("End after so long. With --count, too few changes are a failure.", valueName: "seconds")
    )
    var timeout: Double?

    @Flag(help: "Wait for the database to be created.")
    var wait = false

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp("The name of this participant, as other processes see it.", valueName: "name")
    )
    var author = "roundtable"

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count takes a number that is at least 1.") }
        if let timeout, !(timeout >= 0 && timeout <= 1e6) {
            throw ValidationError("--timeout takes a number of seconds that is not negative.")
        }
    }

    func run() throws {
        let url = URL(fileURLWithPath: path)
        var options = SharedDatabase.Options()
        // The tool reports what goes wrong itself, on one line.
        options.eventLog = .off
        options.waitWhileStopped()
        let end = WatchEnd()
        let signals = EndingSignals { end.reach(.signal($0)) }
        defer { signals.ignore() }
        end.reachWhenUnread()
        let deadline = timeout.map { DispatchTime.now() + $0 } ?? .distantFuture
        var printer = WatchPrinter(isJSON: json, isFiltered: !tables.isEmpty, limit: count)
        do {
            guard let (database, identity) = try open(url, options, until: deadline, end) else {
                throw ToolError(
                    "\(url.path): was not created within \(timeout ?? 0) s, or is not in WAL mode yet. Raise --timeout."
                )
            }
            defer { try? database.close() }
            let observation = try observe(database) { change in
                if let reason = printer.print(change) { end.reach(reason) }
            }
            if let identity { end.reachWhenGone(path: database.path, identity: identity) }
            Terminal.complain("watching \(url.path)")
            let reason = end.wait(until: deadline)
            observation.cancel()
            try finish(reason)
        } catch let error as ExitCode {
            throw error
        } catch {
            let line = ToolError.line(for: error)
            throw line.contains(url.path) ? error : ToolError("\(url.path): \(line)")
        }
    }

    private func finish(_ reason: WatchEnd.Reason?) throws {
        switch reason {
        case .enough, .unread: return
        case .signal(let number): throw ExitCode(128 + number)
        case .unwritable(let error): throw error
        case .gone: throw WatchEnd.goneError(URL(fileURLWithPath: path).path, next: "Watch again.")
        case nil:
            guard let count, let timeout else { return }
            let what = "fewer than \(count) change\(count == 1 ? "" : "s") within \(timeout.formatted()) s"
            throw ToolError("\(what). Raise --timeout, or lower --count.")
        }
    }

    private func observe(
        _ database: SharedDatabase,
        _ body: @escaping (DatabaseChange) -> Void
    ) throws -> AnyDatabaseCancellable {
        // The queue runs `body` on one thread at a time, which is all that `body` needs.
        nonisolated(unsafe) let body = body
        let region: any DatabaseRegionConvertible =
            tables.isEmpty ? DatabaseRegion.fullDatabase : TablesRegion(names: tables)
        let queue = DispatchQueue(label: "roundtable.watch")
        return try database.observeChanges(in: region, on: queue) { body($0) }
    }

    // MARK: Opening

    /// Opens the database. With `--wait`, it waits until the database exists and is in WAL mode.
    ///
    /// - returns: nil when the deadline has passed.
    private func open(
        _ url: URL,
        _ options: SharedDatabase.Options,
        until deadline: DispatchTime,
        _ end: WatchEnd
    ) throws -> (SharedDatabase, FileIdentity?)? {
        while true {
            // Before it is opened: a file that replaces it meanwhile is noticed.
            let identity = try? System.identity(ofFileAt: url.path)
            switch Result(catching: { try openNow(url, options) }) {
            case .success(let database): return (database, identity)
            case .failure(let error) where !wait || !Self.mayPass(error): throw error
            case .failure: break
            }
            if let reason = end.wait(until: min(deadline, .now() + .milliseconds(50))) {
                try finish(reason)
                throw ExitCode.success
            }
            if DispatchTime.now() >= deadline { return nil }
        }
    }

    private static func mayPass(_ error: any Error) -> Bool {
        switch error {
        case is NotYet, SharedDatabaseError.notAFile(_, Onlooker.noSuchFile): true
        // Another process may be creating the database or switching it to WAL now.
        case DatabaseError.SQLITE_BUSY: true
        default: false
        }
    }

    /// The file is empty, or the database is not in WAL mode. Another process may be creating it.
    private struct NotYet: Error, CustomStringConvertible { let description: String }

    private func openNow(_ url: URL, _ options: SharedDatabase.Options) throws -> SharedDatabase {
        guard let header = try Onlooker(url).header else {
            throw NotYet(
                description: "\(url.path): is empty: no database was created in it yet. --wait waits for that."
            )
        }
        guard header.isWAL else {
            throw NotYet(
                description: """
                    \(url.path): is in rollback-journal mode, which leaves nothing to watch. Sharing it switches it to WAL, as \
                    'PRAGMA journal_mode = WAL' does in any program.
                    """
            )
        }
        do {
            switch try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: author, options: options) {
            case .available(let database): return database
            case .unavailable: throw SharedDatabaseError.notAFile(path: url.path, reason: Onlooker.noSuchFile)
            }
        } catch let error as DatabaseLocationError {
            guard case .companionsWouldKeepWritersOut = error else { throw error }
            // A process that writes will create the missing files.
            throw NotYet(description: "\(error)")
        }
    }
}

/// The region of some tables, and of the tables of some views.
private struct TablesRegion: DatabaseRegionConvertible {
    let names: [String]

    func databaseRegion(_ db: Database) throws -> DatabaseRegion {
        try names.reduce(into: DatabaseRegion()) { region, name in
            if try db.viewExists(name) {
                let sql = "SELECT * FROM \(name.quotedDatabaseIdentifier)"
                region.formUnion(try SQLRequest<Row>(sql: sql).databaseRegion(db))
            } else if try db.tableExists(name) {
                region.formUnion(try Table(name).databaseRegion(db))
            } else {
                let query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
                let present = try String.fetchAll(db, sql: query).joined(separator: ", ")
                throw ToolError("there is no table '\(name)', but \(present.isEmpty ? "none at all" : present)")
            }
        }
    }
}
