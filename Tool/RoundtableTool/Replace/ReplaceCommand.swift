import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableReplication
import RoundtableToolSupport
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

struct ReplaceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replace",
        abstract: "Replace the content of a database that is in use by that of another file.",
        discussion: """
            Programs that have the database open continue, with the new content. Never move a file over a database that is in use: each program \
            would go on with the file that it has open.

            The file is copied to a temporary file, checked (PRAGMA quick_check), and becomes the content in one turn and one commit. It is not \
            changed itself, and may be in use.

            Programs expect their migrations. A file that has others than the database has now is refused, unless there is \
            --other-migrations: the programs then refuse to write to what is newer than they are, and fail with what is older, until they are \
            started again. A program that replaces the content itself (SharedDatabase.replaceContent) migrates what is older.

            With --json, prints one JSON object: "path", "source", "bytes", "seconds", "migrations".

            Exit code: 0 when the content is replaced; 1 when not, and nothing has changed; 130 after Ctrl-C.

            Examples:
              roundtable replace app.db --with backup.db
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Option(
        name: .customLong("with"),
        help: ArgumentHelp("The database file that has the content.", valueName: "file"),
        completion: .file()
    )
    var source: String

    @Flag(help: "Accept a file whose migrations are not those of the database.")
    var otherMigrations = false

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp("The name of this participant, as other processes see it.", valueName: "name")
    )
    var author = "roundtable"

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("How long to wait while other processes write.", valueName: "seconds")
    )
    var timeout = 5.0

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var others: OthersFolderOption

    func validate() throws {
        guard timeout >= 0, timeout <= 1e6 else {
            throw ValidationError("--timeout takes a number of seconds that is not negative.")
        }
    }

    func run() async throws {
        let (url, sourceURL) = (try others.checkedDatabase(path), URL(fileURLWithPath: source))
        // An error beside a missing database, which opening would create.
        _ = try Onlooker(url)
        var options = SharedDatabase.Options()
        // The tool reports what goes wrong itself, on one line.
        options.eventLog = .off
        options.busyTimeout = .seconds(timeout)
        options.setupTimeout = .seconds(timeout)
        options.waitWhileStopped()
        let database = try await SharedDatabase.open(at: url, schema: .unmanaged, as: author, options: options)
        defer { try? database.close() }
        if !otherMigrations { try await compareMigrations(database, sourceURL) }

        let progress = RestoreProgress(json ? .none : isatty(STDERR_FILENO) == 1 ? .bar : .lines)
        let pages = Mutex(0)
        let began = ContinuousClock.now
        let replacing = Task {
            try await database.replaceContent(with: sourceURL) { step in
                pages.withLock { $0 = max($0, step.totalPages) }
                progress.show("\(step.phase.rawValue) … \(step.completedPages) of \(step.totalPages) pages")
            }
        }
        let received = Mutex<Int32?>(nil)
        let signals = EndingSignals { number in
            received.withLock { $0 = $0 ?? number }
            replacing.cancel()
        }
        defer { signals.ignore() }
        do {
            try await replacing.value
        } catch is CancellationError {
            progress.clear()
            let number = received.withLock { $0 } ?? SIGINT
            throw ToolError("\(url.path): ended: nothing has changed. Run it again.", exitCode: 128 + number)
        } catch let error as DatabaseError {
            progress.clear()
            throw Self.unchanged(error, database.path, sourceURL.path)
        }
        progress.clear()
        let report = ReplaceReport(
            path: database.path,
            source: sourceURL.path,
            bytes: pages.withLock { $0 }
                * (try await database.read { try Int.fetchOne($0, sql: "PRAGMA page_size") ?? 0 }),
            seconds: began.duration(to: .now) / .seconds(1),
            migrations: try await database.read(Self.migrations).count
        )
        Terminal.write(json ? report.json : Terminal.dressed(report.text))
    }

    /// This error of the replacement, with the path and what it leaves.
    private static func unchanged(_ error: DatabaseError, _ path: String, _ source: String) -> ToolError {
        let text = ToolError.line(for: error)
        if text.contains("Nothing was changed") { return ToolError(text) }
        let isNamed = [path, source].contains { text.hasPrefix("\($0): ") }
        let next = error.resultCode == .SQLITE_BUSY ? " Try again after that, or give a longer --timeout." : ""
        return ToolError("\(isNamed ? "" : "\(path): ")\(text). Nothing was changed.\(next)")
    }

    /// - throws: `ToolError` when the migrations differ.
    private func compareMigrations(_ database: SharedDatabase, _ source: URL) async throws {
        let given: Set<String>
        do {
            let queue = try Self.connection(source)
            defer { try? queue.close() }
            given = try await queue.read(Self.migrations)
        } catch {
            // The replacement fails for this reason, and explains it.
            return
        }
        let own: Set<String>
        do {
            own = try await database.read(Self.migrations)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
            throw ToolError(
                """
                \(database.path): is damaged, and its migrations cannot be read (\(error.message ?? "\(error.resultCode)")). Nothing was changed. \
                Give --other-migrations, which compares no migrations; the content of \(source.path) then replaces what is damaged.
                """
            )
        }
        func list(_ names: Set<String>) -> String { names.sorted().map { "'\($0)'" }.joined(separator: ", ") }
        let (unknown, missing) = (given.subtracting(own), own.subtracting(given))
        if unknown.isEmpty, missing.isEmpty { return }
        let differences = [
            unknown.isEmpty ? nil : "has the migrations \(list(unknown)), which \(database.path) does not have",
            missing.isEmpty ? nil : "lacks \(list(missing)), which \(database.path) has",
        ].compactMap(\.self).joined(separator: ", and ")
        if !own.isEmpty, given.isDisjoint(with: own) {
            throw ToolError(
                """
                \(source.path): is the database of another program: it \(differences). Nothing was changed. Give a backup of this database; or, to \
                replace it all the same, give --other-migrations.
                """
            )
        }
        throw ToolError(
            """
            \(source.path): \(differences). Nothing was changed. Have the program replace the content (SharedDatabase.replaceContent), which \
            migrates; or give --other-migrations, and start the programs again afterwards.
            """
        )
    }

    /// A connection that creates no file beside the source, unless a WAL has to be recovered first.
    private static func connection(_ source: URL) throws -> DatabaseQueue {
        let onlooker = try Onlooker(source)
        guard onlooker.missesWAL else { return try onlooker.connection(waitingUpTo: .seconds(1)) }
        var configuration = Configuration()
        configuration.readonly = true
        return try UnsharedDatabase.openQueue(at: source, configuration: configuration)
    }

    private static func migrations(_ db: Database) throws -> Set<String> {
        guard try db.tableExists("grdb_migrations") else { return [] }
        return try Set(String.fetchAll(db, sql: "SELECT identifier FROM main.grdb_migrations"))
    }
}

/// What `roundtable replace` reports.
struct ReplaceReport: Encodable {
    let path: String
    let source: String
    let bytes: Int
    let seconds: Double
    let migrations: Int

    var text: String {
        "\(path): has the content of \(source) (\(bytes.byteSize)), after \(seconds.seconds).\n"
    }

    var json: String { PrintedJSON.object(self, isPretty: true) }
}
