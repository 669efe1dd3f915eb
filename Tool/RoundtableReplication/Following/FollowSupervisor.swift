import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableProcesses
import Synchronization

/// Runs Litestream, which keeps a copy of a database elsewhere up to date, and copies its whole states into the database that others read
/// (rules Q).
final class FollowSupervisor: Sendable {
    private let program: LitestreamProgram
    private let url: ReplicaURL
    private let interval: Double
    private let report: @Sendable (ReplicaStatus) -> Void
    private let complain: @Sendable (String) -> Void
    private let path: String
    private let monitor: Mutex<FollowMonitor>
    private let lastComplaint = Mutex("")
    private let wakeUp = MonotonicSemaphore()
    private let isEnding = Atomic(false)
    private let isListing = Atomic(false)
    /// The current term, as far as is known.
    private let term: Mutex<ReplicaTerm>
    private let isReporting = Mutex(true)

    private static let tick: Nanoseconds = 1_000_000_000
    private static let listingInterval: Nanoseconds = 10_000_000_000
    private static let termPatience = Duration.seconds(30)
    /// Copying takes at most a fifth of the time.
    private static let rest: Nanoseconds = 4

    /// - Parameters:
    ///   - interval: how often Litestream looks for new transactions, in seconds.
    ///   - report: called when something has changed.
    ///   - complain: called with each error that differs from the one before.
    init(
        _ program: LitestreamProgram,
        _ version: ProgramVersion,
        from url: ReplicaURL,
        to database: FollowedDatabase,
        interval: Double,
        report: @escaping @Sendable (ReplicaStatus) -> Void,
        complain: @escaping @Sendable (String) -> Void
    ) {
        self.program = program
        self.url = url
        self.interval = interval
        self.report = report
        self.complain = complain
        path = database.path
        let last = database.last?.url == url.shown ? database.last : nil
        term = Mutex(ReplicaTerm(number: last?.term ?? 0, token: last?.termToken ?? 0))
        monitor = Mutex(
            FollowMonitor(
                url: url,
                version: version.description,
                follower: .current,
                continuing: database.last,
                at: Date()
            )
        )
    }

    func end() {
        isEnding.store(true, ordering: .sequentiallyConsistent)
        wakeUp.signal()
    }

    private var mustEnd: Bool { isEnding.load(ordering: .sequentiallyConsistent) }
    private var status: ReplicaStatus { monitor.withLock { $0.status } }

    /// Follows until `end()`. Call it on the main thread: Litestream gets a signal when the thread that has started it ends.
    func run(_ database: FollowedDatabase) throws {
        try database.prepare(status)
        defer {
            isReporting.withLock { $0 = false }
            database.close()
            // What is left is removed by the next follower.
            try? database.removeFolder()
        }
        while !mustEnd {
            do {
                let term = try lookAtTerms()
                note(.isInTerm(term))
                let staging = try database.makeFolder()
                let request = RestoreRequest(
                    url: url.place(of: term),
                    at: nil,
                    output: "\(ProgramRun.path(of: staging.folder))/\(StagedDatabase.name)"
                )
                let running = try RunningProgram(
                    program.path,
                    [
                        "restore", "-config", LitestreamProgram.configurationPath, "-no-expand-env", "-f",
                        "-follow-interval",
                        "\(Int((interval * 1000).rounded(.up)))ms", "-o", request.output, request.output,
                    ],
                    configuration: request.configuration,
                    folders: [staging.folder],
                    isBound: true,
                    onLine: { [wakeUp] in wakeUp.signal() }
                )
                note(.started(pid: running.pid))
                follow(running, request, staging, database, in: term)
            } catch _ where mustEnd {
                return
            } catch let failure as ClaimFailure {
                note(.notStarted(failure.problem))
            } catch {
                note(.notStarted(LitestreamProblem(.notStarted, "\(error)")))
            }
            wait(Nanoseconds(monitor.withLock { $0.pause } * 1e9))
        }
    }

    /// Returns when the program has ended, or was ended.
    private func follow(
        _ running: RunningProgram,
        _ request: RestoreRequest,
        _ staging: StagingFolder,
        _ database: FollowedDatabase,
        in term: ReplicaTerm
    ) {
        let staged = StagedDatabase(path: staging.folder.file(StagedDatabase.name))
        var (nextCopy, nextListing) = (Nanoseconds(0), Nanoseconds(0))
        var isNew = false
        while true {
            if noteLines(running) { isNew = true }
            if let exit = running.waitForExit(until: 0) {
                _ = noteLines(running)
                if !mustEnd { note(.ended(exit)) }
                return
            }
            if mustEnd || self.term.withLock({ $0 != term }) || monitor.withLock({ $0.isStuck(at: Date()) }) {
                running.signal(SIGTERM)
                // A stopped program handles no signal.
                running.signal(SIGCONT)
                let exit = running.waitForExit(until: MonotonicClock.now + 5_000_000_000)
                if exit == nil { running.kill() }
                return
            }
            let now = MonotonicClock.now
            if isNew, now >= nextCopy {
                switch copy(staged, running, to: database) {
                case true: (isNew, nextCopy) = (false, MonotonicClock.now + (MonotonicClock.now - now) * Self.rest)
                case nil: nextCopy = now + 20_000_000
                case false: nextCopy = now + Self.tick
                }
            }
            if now >= nextListing {
                nextListing = now + Self.listingInterval
                list(request, staging, in: term)
            }
            _ = wakeUp.wait(until: isNew ? max(nextCopy, MonotonicClock.now) : MonotonicClock.now + Self.tick)
        }
    }

    // MARK: Copying

    /// - returns: false when it failed, and nil when Litestream is changing its copy, or has changed it without having finished.
    private func copy(_ staged: StagedDatabase, _ running: RunningProgram, to database: FollowedDatabase) -> Bool? {
        do {
            let errors = errorCount.load(ordering: .sequentiallyConsistent)
            // Litestream reports an error right after it has given up its lock.
            let isWholeInDoubt = {
                _ = running.waitForExit(until: MonotonicClock.now + 50_000_000)
                _ = self.noteLines(running)
                return self.errorCount.load(ordering: .sequentiallyConsistent) == errors
            }
            let transaction = try staged.readState(isWholeInDoubt: isWholeInDoubt) { state, transaction -> String? in
                // What the database has already is not copied again, and an earlier state never.
                let last = monitor.withLock { $0.transactionInTerm }
                if let last, transaction < last { return nil }
                if transaction != last || status.state != .following { try database.copy(from: state) }
                return transaction
            }
            if let transaction { note(.copied(transaction: transaction)) }
            return true
        } catch is StagedDatabase.Obstacle {
            return nil
        } catch {
            note(.notCopied(LitestreamProblem(.notCopied, "\(error)")))
            return false
        }
    }

    private let errorCount = Atomic(0)

    // MARK: What Litestream says

    /// - returns: whether there is a new state.
    private func noteLines(_ running: RunningProgram) -> Bool {
        var isNew = false
        for text in running.takeLines() {
            let line = LitestreamLine(text)
            if !line.isError {
                isNew = isNew || Self.announcements.contains { line.text.hasPrefix($0) }
                continue
            }
            errorCount.add(1, ordering: .sequentiallyConsistent)
            note(.log(line))
            let shown = url.redacting(line.text)
            let isOther = lastComplaint.withLock { last in
                defer { last = shown }
                return last != shown
            }
            if isOther { complain(shown) }
        }
        return isNew
    }

    private static let announcements = ["entering follow mode", "follow: applied updates"]

    /// Looks for the current term (rule D8). If it is another one than before, `follow` returns.
    private func lookAtTerms() throws -> ReplicaTerm {
        let known = term.withLock { $0 }
        let claims = ClaimStore(program, url, patience: Self.termPatience) { [self] in mustEnd }
        let current = try claims.current(since: known)?.term ?? .first
        term.withLock { $0 = current }
        if current != known { wakeUp.signal() }
        return current
    }

    /// Asks for the current term, and for the transactions of the one that is followed, on another thread.
    private func list(_ request: RestoreRequest, _ staging: StagingFolder, in term: ReplicaTerm) {
        guard !isListing.exchange(true, ordering: .sequentiallyConsistent) else { return }
        DetachedThread.startOrQueue { [self] in
            defer { isListing.store(false, ordering: .sequentiallyConsistent) }
            // What cannot be read now is looked at again, and Litestream reports why.
            if let current = try? lookAtTerms(), current != term { return }
            guard (try? staging.folder.status(ofFile: StagedDatabase.name)) ?? nil != nil else { return }
            let arguments = [
                "ltx", "-config", LitestreamProgram.configurationPath, "-no-expand-env", "-level", "all", "-json",
                request.output,
            ]
            guard
                let run = try? program.start(
                    arguments,
                    configuration: try request.configuration,
                    folders: [staging.folder]
                ),
                let output = try? run.wait(upTo: 30_000), output.exit == .status(0),
                let transactions = FollowedTransactions(output.standardOutput)
            else { return }
            note(.listed(transactions, inTerm: term))
        }
    }

    private func note(_ event: FollowMonitor.Event) {
        let (before, after) = monitor.withLock { monitor in
            let before = monitor.status
            monitor.handle(event, at: Date())
            return (before, monitor.status)
        }
        guard before != after else { return }
        // The report is advice, and its loss changes nothing: the file that is there marks the database.
        isReporting.withLock {
            if $0, mayReport { _ = try? ReplicaStatus.file(besideDatabaseAt: path).write(after.forFile) }
        }
        report(after)
    }

    /// Whether the file is still the mark of this follower. Another program may have taken the place of the database.
    private var mayReport: Bool { ReadReplica.exists(databasePath: path) }

    private func wait(_ time: Nanoseconds) {
        let deadline = MonotonicClock.now + time
        while !mustEnd, MonotonicClock.now < deadline { _ = wakeUp.wait(until: deadline) }
    }
}
