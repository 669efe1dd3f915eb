import ArgumentParser
import Foundation
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

package struct RestoreCommand: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Restore a database from a replica that Litestream has made.",
        discussion: """
            Runs the installed program 'litestream' (0.5 or later), which fetches the newest state, or with --at the last one that is not later \
            than that time. The state is restored into a temporary folder beside the path, checked (PRAGMA integrity_check, schema, \
            extensions), and only then gets its name. Nothing is replaced, unless there is --replace; and no database that a program uses.

            Litestream takes credentials from the environment (LITESTREAM_ACCESS_KEY_ID and LITESTREAM_SECRET_ACCESS_KEY, or AWS_…, for s3), or from the URL, which is \
            not shown to other processes.

            With --json, prints one JSON object: "path", "url" (without credentials), "term", "current_term", "transaction", "time", "at", "bytes", "seconds", "wal", \
            "tables", "migrations", "checks", "replaced", "waiting_commands".

            Exit code: 0 when the database is restored; 1 when not, and nothing has changed; 130 after Ctrl-C.

            Examples:
              roundtable restore s3://bucket/app app.db
              roundtable restore file:///backup/app app.db --at 2026-11-23T17:29:21Z
              roundtable restore sftp://me@host/backup/app app.db --replace
            """
    )

    @Argument(
        help:
            "The replica, as 'roundtable replicate --to' was given it: file:///folder, s3://bucket/path; @FILE or @env:NAME, where that stands.",
        transform: { try GivenPlace($0) }
    )
    var url: GivenPlace

    @Argument(help: "The database file to create.", completion: .file())
    var path: String

    @Option(
        help: ArgumentHelp(
            "Restore the last state that is not later: 2026-11-23T17:29:21Z, 2026-11-23T18:29:21.5+01:00.",
            valueName: "time"
        )
    )
    var at: String?

    @Flag(help: "Move a database that is there, with its -wal and other files, to a folder beside it.")
    var replace = false

    @Option(
        name: .customLong("litestream"),
        help: ArgumentHelp("The program 'litestream', if it is not in PATH.", valueName: "path"),
        completion: .file()
    )
    var program: String?

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var others: OthersFolderOption

    private var time: RestoreTime? { at.flatMap(RestoreTime.init) }

    package init() {}

    package func validate() throws {
        do { _ = try ReplicaURL(url.text) } catch { throw ValidationError(error.description) }
        if at != nil, time == nil {
            throw ValidationError(
                "--at takes a time with its offset from UTC, such as 2026-11-23T17:29:21Z or 2026-11-23T18:29:21+01:00."
            )
        }
    }

    package func run() throws {
        let url = try ReplicaURL(url.text)
        let litestream = try LitestreamProgram.find(program)
        try litestream.requireVersion()
        let target = try RestoreTarget(path, checkingLinks: others.checkLink)
        try others.check(target.files, replacing: target.existing)
        try target.removeAbandoned()
        try target.check(isReplacing: replace)

        let style: RestoreProgress.Style = json ? .none : isatty(STDERR_FILENO) == 1 ? .bar : .lines
        let progress = RestoreProgress(style)
        let ending = RestoreEnding { progress.clear() }
        let signals = EndingSignals { ending.receive($0) }
        defer { signals.ignore() }
        let staging = try target.makeStagingFolder()
        defer { staging.remove() }
        let job = RestoreJob(
            litestream: litestream,
            url: url,
            at: time,
            staging: staging,
            target: target,
            ending: ending,
            progress: progress,
            style: style
        )
        let fence = FenceStatus(ofDatabaseAt: URL(fileURLWithPath: target.path))
        let report = try job.run(from: job.claims.current(), isReplacing: replace)
        if let fence {
            Terminal.complain(
                """
                what was here is fenced. \(fence.lines.what) What is restored is a copy: what is written to it reaches no other machine. To be \
                the writer, use 'roundtable promote'.
                """
            )
        }
        Terminal.write(json ? report.json : Terminal.dressed(report.lines))
    }
}

/// The steps of a restore.
struct RestoreJob {
    let litestream: LitestreamProgram
    let url: ReplicaURL
    /// nil: the newest state.
    let at: RestoreTime?
    /// The folder in which the database is restored.
    let staging: StagingFolder
    let target: RestoreTarget
    let ending: RestoreEnding
    let progress: RestoreProgress
    let style: RestoreProgress.Style

    private static let file = "database"
    /// The restored file, as this process reaches it.
    private var output: String { "\(staging.path)/\(Self.file)" }
    /// The restored file, as Litestream reaches it.
    private var outputOfProgram: String { "\(ProgramRun.path(of: staging.folder))/\(Self.file)" }

    /// The claims at the URL.
    var claims: ClaimStore {
        ClaimStore(litestream: litestream, url: url) { [ending, progress] run in
            try Self.wait(run, ending, progress) { "looking for the writer …" }
        }
    }

    /// - Parameters:
    ///   - current: the claim of the current term; nil in term 0.
    ///   - confirm: called before anything is moved.
    ///   - promoted: the term in which the restored database is the writer's; nil: it is a copy.
    func run(
        from current: TermClaim?,
        isReplacing: Bool,
        promoted: ReplicaTerm? = nil,
        confirm: () throws -> Void = {}
    ) throws -> RestoreReport {
        defer { progress.clear() }
        let begun = ContinuousClock.now
        let (plan, request, term) = try plan(TermPlaces(claims, from: current))
        let state = try fetch(plan, request)
        try ending.checking(staging)
        try requireInPlace()
        let checking = ContinuousClock.now
        let checked = try CheckedDatabase(at: output, shownAs: target.path, from: url) {
            progress.show("checking the content … \((ContinuousClock.now - checking).components.seconds) s")
        }
        try requireInPlace()
        try target.finish(Self.file, in: staging)
        try confirm()
        try ending.placing()
        let replaced = try place(isReplacing: isReplacing, promoted)
        let elapsed = (ContinuousClock.now - begun) / .seconds(1)
        return RestoreReport(
            path: target.path,
            url: url.shown,
            term: term.number,
            currentTerm: current?.term.number ?? 0,
            promotedTerm: promoted?.number,
            transaction: state.transaction,
            time: state.time.text,
            at: at?.text,
            bytes: checked.bytes,
            seconds: (elapsed * 1000).rounded() / 1000,
            isWAL: checked.isWAL,
            tables: checked.tables,
            migrations: checked.migrations,
            checks: checked.checks,
            replaced: replaced,
            waitingCommands: target.waitingCommands
        )
    }

    // MARK: Fetching

    /// Finds the state to restore, in the highest term that has it (rule D7).
    func plan(_ places: TermPlaces) throws -> (RestorePlan, RestoreRequest, ReplicaTerm) {
        var places = places
        var first: RestoreTime?
        while true {
            let request = RestoreRequest(url: places.place, at: at, output: outputOfProgram)
            let planned = try run(request.arguments(isPlan: true), request) { "looking for the backup …" }
            guard let failure = planned.litestreamFailure else {
                return (try decode(planned), request, places.term)
            }
            guard RestoreFailure.isNothingFound(failure) else { throw error(failure) }
            if at != nil { first = try firstState(request) ?? first }
            if try places.descend() { continue }
            guard let at, let first else { throw RestoreFailure.nothing(at: url) }
            throw RestoreFailure.tooEarly(at, at: url, first: first)
        }
    }

    private func decode(_ output: ProgramOutput) throws -> RestorePlan {
        do {
            return try JSONDecoder().decode(RestorePlan.self, from: Data(output.standardOutput.utf8))
        } catch {
            throw ToolError(
                "\(litestream.path): its plan of the restore is not understood. Use a version of Litestream between 0.5.17 and 0.6."
            )
        }
    }

    /// The time of the first state that the replica has; nil when it has none.
    private func firstState(_ request: RestoreRequest) throws -> RestoreTime? {
        struct File: Decodable {
            let level: Int
            let firstTransaction: String
            let timestamp: String

            enum CodingKeys: String, CodingKey {
                case level, timestamp
                case firstTransaction = "min_txid"
            }
        }
        let arguments = [
            "ltx", "-config", LitestreamProgram.configurationPath, "-no-expand-env", "-level", "all", "-json",
            request.output,
        ]
        let output = try run(arguments, request) { "looking for the backup …" }
        guard output.litestreamFailure == nil,
            let files = try? JSONDecoder().decode([File].self, from: Data(output.standardOutput.utf8))
        else { return nil }
        // A restore begins with a snapshot (level 9), or with the first transaction.
        return files.filter { $0.level == 9 || UInt64($0.firstTransaction, radix: 16) == 1 }
            .compactMap { RestoreTime($0.timestamp) }.min()
    }

    private func fetch(_ plan: RestorePlan, _ request: RestoreRequest) throws -> RestoredState {
        let file = GrowingFile(folder: staging.folder, name: "\(Self.file).tmp")
        var expected: Int?
        let output = try run(request.arguments(isPlan: false), request) {
            let size = file.size
            if expected == nil, size > 0 { expected = file.expectedSize }
            return RestoreProgress.text(size, of: expected, fetching: plan.size, style: style)
        }
        if let failure = output.litestreamFailure { throw error(failure) }
        guard let state = RestoredState(output.litestreamLog) else {
            throw ToolError(
                "\(url.shown): the backup of that time was made by Litestream 0.3. Restore it with 'litestream restore', or give a later --at."
            )
        }
        return state
    }

    private func error(_ failure: String) -> ToolError {
        let failure = failure.replacingOccurrences(of: ProgramRun.path(of: staging.folder), with: staging.path)
        return RestoreFailure.error(failure, from: url, into: target.folder)
    }

    private func run(
        _ arguments: [String],
        _ request: RestoreRequest,
        showing text: () -> String
    ) throws -> ProgramOutput {
        let run = try litestream.start(
            arguments,
            configuration: try request.configuration,
            folders: [staging.folder]
        )
        return try Self.wait(run, ending, progress, showing: text)
    }

    private static func wait(
        _ run: ProgramRun,
        _ ending: RestoreEnding,
        _ progress: RestoreProgress,
        showing text: () -> String
    ) throws -> ProgramOutput {
        try ending.running(run)
        while true {
            if let output = try run.wait(upTo: 100) {
                // A signal that has killed the program is reported here.
                try ending.waiting()
                return output
            }
            progress.show(text())
        }
    }

    // MARK: Placing

    /// SQLite opens files by their paths.
    private func requireInPlace() throws {
        guard staging.isInPlace else {
            throw ToolError(
                "\(staging.path): another user has moved it away while the database was being restored there. Restore into a folder that no other user may write."
            )
        }
    }

    /// - returns: the folder to which the database that was there has been moved.
    private func place(isReplacing: Bool, _ promoted: ReplicaTerm?) throws -> String? {
        // What has been there for all the time is known; what is used or was created meanwhile is not touched.
        let moved = ToolError(
            "\(target.folder): another folder has this name since the restore has begun. Check the path, and restore again."
        )
        let now = try RestoreTarget(target.path) { _ in throw moved }
        guard try FileIdentity(now.files.status()) == FileIdentity(target.files.status()) else { throw moved }
        try now.check(isReplacing: isReplacing)
        var lock: DatabaseLock?
        if now.existing != nil {
            lock = try DatabaseLock(now.path)
            guard lock?.take() == true else {
                try now.check(isReplacing: isReplacing)
                throw ToolError(
                    "\(now.path): a program has begun to use it meanwhile. End that program, and restore again."
                )
            }
        }
        let aside = try now.setAside()
        withExtendedLifetime(lock) {}
        let kept = try now.kept()
        if !kept.isEmpty {
            Terminal.complain(
                "\(target.folder): these files belong to other users, and stay there: \(kept.joined(separator: ", "))."
            )
        }
        do {
            // Before the database has its name, because programs may use it at once (rule D4).
            if let promoted {
                try TermRecord(besideDatabaseAt: now.path).set(promoted, at: url, ofDatabaseAt: output)
            }
            try now.place(Self.file, from: staging)
        } catch {
            guard let aside else { throw error }
            throw ToolError("\(ToolError.line(for: error)) What was there before is in \(aside).")
        }
        return aside
    }
}
