import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableProcesses
import RoundtableToolSupport
import Synchronization

/// Runs Litestream for one database, and starts it again when it ends (rules Y). While it runs, the participants leave checkpoints to it
/// (rule K13).
final class ReplicationSupervisor: Sendable {
    private enum Request: Int { case none, end, kill }

    private let database: SharedDatabase
    private let program: LitestreamProgram
    private let version: ProgramVersion
    private let socketPath: String
    private let folder: StagingFolder
    private let report: @Sendable (ReplicationStatus) -> Void
    private let complain: @Sendable (String) -> Void
    private let replica: ReplicaURL
    private let interval: Double
    private let termInterval: Nanoseconds
    private let lastComplaint = Mutex("")
    private let monitor: Mutex<ReplicationMonitor>
    private let file: SnapshotFile<ReplicationStatus>
    private let wakeUp = MonotonicSemaphore()
    private let request = Atomic(Request.none.rawValue)
    private let isAsking = Atomic(false)
    /// What is known of the terms; nil before the first look.
    private let standing = Mutex<TermStanding?>(nil)
    /// Whether the database has the mark of rule D6.
    private let isMarked = Atomic(false)
    private let looks = MonotonicSemaphore()
    private let looksEnded = MonotonicSemaphore()
    /// Held while the file of the report is written or removed.
    private let isReporting = Mutex(true)

    /// How often the lease is renewed and Litestream is asked, and how long it may take to end.
    private static let tick: Nanoseconds = 1_000_000_000
    private static let questionInterval: Nanoseconds = 2_000_000_000
    private static let patience: Nanoseconds = 35_000_000_000
    /// How long Litestream may take for one look at a claim.
    private static let termPatience = Duration.seconds(30)

    /// - Parameters:
    ///   - interval: how often Litestream looks for commits and uploads them, in seconds.
    ///   - termInterval: how often to look whether another machine was promoted, in seconds.
    ///   - report: called when the state has changed.
    ///   - complain: called with each error that Litestream reports, and that differs from the one before.
    init(
        _ database: SharedDatabase,
        _ program: LitestreamProgram,
        _ version: ProgramVersion,
        to replica: ReplicaURL,
        interval: Double,
        termInterval: Double,
        report: @escaping @Sendable (ReplicationStatus) -> Void,
        complain: @escaping @Sendable (String) -> Void
    ) throws {
        self.database = database
        self.program = program
        self.version = version
        self.report = report
        self.complain = complain
        self.replica = replica
        self.interval = interval
        self.termInterval = Nanoseconds(termInterval * 1e9)
        file = ReplicationStatus.file(besideDatabaseAt: database.path)
        // The path of a socket has 107 bytes at most, so the folder is not beside the database.
        folder = try StagingFolder.temporary("roundtable-\(UUID().uuidString.prefix(8))")
        socketPath = folder.folder.file("socket")
        monitor = Mutex(
            ReplicationMonitor(
                url: replica,
                version: version.description,
                supervisor: ProcessInfo.processInfo.processIdentifier,
                interval: interval,
                at: Date()
            )
        )
    }

    /// Ends Litestream and then `run`. The second call kills Litestream.
    func end() {
        let isFirst = request.compareExchange(
            expected: Request.none.rawValue,
            desired: Request.end.rawValue,
            ordering: .sequentiallyConsistent
        ).exchanged
        if !isFirst { request.store(Request.kill.rawValue, ordering: .sequentiallyConsistent) }
        wakeUp.signal()
    }

    private var isAskedToEnd: Bool { request.load(ordering: .sequentiallyConsistent) != Request.none.rawValue }
    private var isEnding: Bool { isAskedToEnd || mustNotReplicate }
    /// The term in which this database is the writer's; nil when that is not known, or when another machine is the writer.
    private var term: ReplicaTerm? {
        standing.withLock { if case .writer(let term) = $0 { term } else { nil } }
    }
    private var mustNotReplicate: Bool {
        standing.withLock { standing in
            if case .writer = standing { return false }
            return standing != nil
        }
    }

    /// Supervises until `end()`. Call it on the main thread: Litestream gets a signal when the thread that has started it ends.
    ///
    /// - returns: whether Litestream has ended by itself after the request, and has reported no error, so that everything was uploaded.
    /// - throws: `ToolError` when another machine is the writer.
    func run() throws -> Bool {
        defer {
            database.leaveCheckpointsToOthers(false)
            // What cannot be removed is recognised by its dead supervisor.
            isReporting.withLock { isReporting in
                isReporting = false
                System.removeIfPossible(file.url.path)
            }
            folder.remove()
        }
        var isClean = true
        let keeper = TermKeeper(claims, databasePath: database.path)
        look(keeper)
        startLooking(keeper)
        while !isEnding {
            guard let term else {
                isClean = false
                wait(Self.tick)
                continue
            }
            do {
                keepOthersFromCheckpointing()
                try makeContinuous()
                let running = try RunningProgram(
                    program.path,
                    ["replicate", "-no-expand-env", "-config", LitestreamProgram.configurationPath],
                    // Not in a file, which a supervisor that is killed would leave behind, perhaps with credentials.
                    configuration: configuration(term).text,
                    isBound: true,
                    onLine: { [wakeUp] in wakeUp.signal() }
                )
                note(.started(pid: running.pid))
                isClean = supervise(running)
            } catch let problem as LitestreamProblem {
                note(.notStarted(problem))
            } catch {
                note(.notStarted(LitestreamProblem(.notStarted, "\(error)")))
            }
            database.leaveCheckpointsToOthers(false)
            wait(Nanoseconds(monitor.withLock { $0.pause } * 1e9))
        }
        endLooking()
        try refuse()
        return isClean
    }

    private func configuration(_ term: ReplicaTerm) -> LitestreamConfiguration {
        LitestreamConfiguration(
            databasePath: database.path,
            replica: replica.place(of: term),
            interval: interval,
            socketPath: socketPath
        )
    }

    // MARK: Terms

    private var claims: ClaimStore {
        ClaimStore(program, replica, patience: Self.termPatience) { [self] in isAskedToEnd }
    }

    /// Looks whether another machine is the writer (rule D5). Called by one thread at a time.
    private func look(_ keeper: TermKeeper) {
        if mustNotReplicate { return }
        do {
            let found = try keeper.look()
            if case .writer(let term) = found { note(.isInTerm(term.number)) }
            standing.withLock { $0 = found }
            wakeUp.signal()
        } catch {
            if !isAskedToEnd { couldNotLook(error, keeper) }
        }
    }

    /// In its own term, this database disturbs nobody (rule D5). If it is not known to have one, Litestream waits.
    private func couldNotLook(_ error: any Error, _ keeper: TermKeeper) {
        if term == nil, let own = try? keeper.own, own.isOfThisFile { standing.withLock { $0 = .writer(own.term) } }
        complainOnce("whether another machine is the writer is not known: \(ToolError.line(for: error))")
        guard term == nil else { return }
        note(
            .cannotLook(
                (error as? ClaimFailure)?.problem
                    ?? LitestreamProblem(.unknownWriter, ToolError.line(for: error))
            )
        )
    }

    /// Looks again and again on another thread, and marks a database that is fenced, until `endLooking()`.
    private func startLooking(_ keeper: TermKeeper) {
        DetachedThread.startOrQueue { [self] in
            defer { looksEnded.signal() }
            while true {
                if case .fenced(let claim) = standing.withLock({ $0 }), mark(claim, keeper) { return }
                let pause = term == nil ? Self.tick : termInterval
                if looks.wait(until: MonotonicClock.now + pause) { return }
                if replica.hasTerms { look(keeper) }
            }
        }
    }

    /// Ends the looks, once a fenced database has its mark, or the process is asked to end.
    private func endLooking() {
        while case .fenced = standing.withLock({ $0 }), !isAskedToEnd, !isMarked.load(ordering: .sequentiallyConsistent)
        {
            _ = wakeUp.wait(until: MonotonicClock.now + Self.tick)
        }
        looks.signal()
        _ = looksEnded.wait(until: .max)
    }

    /// - returns: false when the mark cannot be written.
    private func mark(_ claim: TermClaim, _ keeper: TermKeeper) -> Bool {
        do {
            try keeper.fence(by: claim, database)
            isMarked.store(true, ordering: .sequentiallyConsistent)
            wakeUp.signal()
            return true
        } catch {
            let problem = LitestreamProblem(.notFenced, "\(claim.writer): \(error)")
            complainOnce(problem.what)
            note(.cannotLook(problem))
            return false
        }
    }

    private func complainOnce(_ text: String) {
        let text = replica.redacting(text)
        let isNew = lastComplaint.withLock { last in
            defer { last = text }
            return last != text
        }
        if isNew { complain(text) }
    }

    /// - throws: `ToolError` when another machine is the writer.
    private func refuse() throws {
        switch standing.withLock({ $0 }) {
        case .writer, nil: return
        case .fenced(let claim) where !isMarked.load(ordering: .sequentiallyConsistent):
            throw ToolError(
                "\(database.path): \(claim.writer), is the writer now, in term \(claim.term.number). The database could not be marked as fenced: end the programs that write here."
            )
        case .fenced(let claim):
            throw ToolError(
                """
                \(database.path): \(claim.writer), is the writer now, in term \(claim.term.number). The database is fenced, and nothing is written \
                here any more. 'roundtable status' says what to do.
                """
            )
        case .stranger(let claim):
            throw ToolError(
                """
                \(replica.shown): \(claim.writer), is the writer there, in term \(claim.term.number), and \(database.path) never was, or is a copy. \
                Make this machine the writer with 'roundtable promote', or replicate to another URL.
                """
            )
        }
    }

    // MARK: Litestream

    /// Takes the lease, and waits until no checkpoint runs that has begun before (rule Y6).
    private func keepOthersFromCheckpointing() {
        let deadline = MonotonicClock.now + Self.patience
        repeat {
            database.leaveCheckpointsToOthers(true)
            guard SystemLocks.walLocks(databasePath: database.path)?.checkpointing != nil else { return }
            _ = wakeUp.wait(until: MonotonicClock.now + 20_000_000)
        } while !isEnding && MonotonicClock.now < deadline
    }

    /// Empties the WAL if Litestream could miss commits in it, so that Litestream uploads the whole database (rule Y6).
    ///
    /// - throws: `LitestreamProblem` if the WAL cannot be emptied.
    private func makeContinuous() throws {
        for _ in 1...10 {
            let isCertain = LitestreamContinuity.seesEveryCommit(ofDatabaseAt: database.path) {
                (try? database.walHealth()).map { $0.backfilledFrames == $0.committedFrames } ?? true
            }
            if isCertain { return }
            do {
                if try database.checkpoint(.truncate, waitingForReaders: .milliseconds(100)).frames == 0 { return }
            } catch let error as DatabaseError {
                throw LitestreamProblem(.fullWAL, error.message ?? "\(error)")
            }
        }
        let reader = (try? database.walHealth())?.pins.first.map { "\($0.holder) reads from it" } ?? "programs use it"
        throw LitestreamProblem(.fullWAL, reader)
    }

    /// - returns: whether the program has ended without being killed and without an error.
    private func supervise(_ running: RunningProgram) -> Bool {
        var nextQuestion: Nanoseconds = 0
        var deadline: Nanoseconds?
        var endedAt = Date.distantFuture
        while true {
            noteLines(running)
            if let exit = running.waitForExit(until: 0) {
                noteLines(running)
                if deadline == nil { note(.ended(exit)) }
                return exit == .status(0) && !monitor.withLock { $0.mayMissCommits(sinceEnding: endedAt) }
            }
            database.leaveCheckpointsToOthers(true)
            let now = MonotonicClock.now
            if let end = deadline {
                if now >= end || request.load(ordering: .sequentiallyConsistent) == Request.kill.rawValue {
                    running.kill()
                    return false
                }
            } else if isEnding {
                deadline = now + Self.patience
                endedAt = Date()
                running.signal(SIGTERM)
                // A stopped program handles no signal.
                running.signal(SIGCONT)
            } else if now >= nextQuestion {
                nextQuestion = now + Self.questionInterval
                ask()
            }
            _ = wakeUp.wait(until: MonotonicClock.now + (deadline == nil ? Self.tick : 20_000_000))
        }
    }

    /// Asks Litestream for its last sync, on another thread.
    private func ask() {
        guard !isAsking.exchange(true, ordering: .sequentiallyConsistent) else { return }
        DetachedThread.startOrQueue { [self] in
            // A failure to ask is no answer either.
            if let answer = (try? listing()) ?? nil {
                note(.answered(lastSync: answer.lastSync))
            } else {
                let pid = monitor.withLock { $0.status.litestream }
                note(.didNotAnswer(isStopped: pid.flatMap { ProcessTable.entry($0) }?.isStopped == true))
            }
            isAsking.store(false, ordering: .sequentiallyConsistent)
        }
    }

    /// - returns: nil when Litestream does not answer in time.
    private func listing() throws -> LitestreamListing? {
        let run = try program.start(["list", "-json", "-timeout", "2", "-socket", socketPath])
        guard let output = try run.wait(upTo: 5000), output.exit == .status(0) else { return nil }
        return LitestreamListing(output.standardOutput)
    }

    private func noteLines(_ running: RunningProgram) {
        for line in running.takeLines() {
            let log = LitestreamLine(line)
            note(.log(log))
            if log.isError { complainOnce("Litestream: \(log.text)") }
        }
    }

    private func note(_ event: ReplicationMonitor.Event) {
        let (before, after) = monitor.withLock { monitor in
            let before = monitor.status
            monitor.handle(event, at: Date())
            return (before, monitor.status)
        }
        guard before != after || event.isStart else { return }
        // An answer may come after the end. The report is advice, and its loss changes nothing.
        isReporting.withLock { if $0 { _ = try? file.write(after.forFile) } }
        if before.state != after.state || before.problem != after.problem || event.isStart { report(after) }
    }

    private func wait(_ time: Nanoseconds) {
        let deadline = MonotonicClock.now + time
        while !isEnding, MonotonicClock.now < deadline { _ = wakeUp.wait(until: deadline) }
    }
}

extension ReplicationMonitor.Event {
    fileprivate var isStart: Bool {
        if case .started = self { return true }
        return false
    }
}

/// The answer of `litestream list -json` for one database.
struct LitestreamListing: Equatable {
    /// nil before the first successful sync.
    let lastSync: Date?

    init(lastSync: Date?) { self.lastSync = lastSync }

    init?(_ text: String) {
        struct Answer: Decodable {
            struct Database: Decodable {
                let lastSync: String?
                enum CodingKeys: String, CodingKey { case lastSync = "last_sync_at" }
            }
            let databases: [Database]
        }
        guard let answer = try? JSONDecoder().decode(Answer.self, from: Data(text.utf8)),
            let first = answer.databases.first
        else { return nil }
        lastSync = first.lastSync.flatMap {
            try? Date($0, strategy: .iso8601.year().month().day().time(includingFractionalSeconds: true))
        }
    }
}
