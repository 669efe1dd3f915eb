import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableKernel
import RoundtableProcesses

/// Decides what state a read replica is in, from what Litestream writes and does, and what was copied. A pure state machine.
struct FollowMonitor {
    enum Event {
        case started(pid: Int32)
        /// The current term is this one, from which Litestream fetches from now on.
        case isInTerm(ReplicaTerm)
        case log(LitestreamLine)
        /// The state of this transaction has come into the database.
        case copied(transaction: String)
        case notCopied(LitestreamProblem)
        /// The transactions at the URL, with the times of their uploads.
        case listed(FollowedTransactions, inTerm: ReplicaTerm)
        case ended(ProgramExit)
        case notStarted(LitestreamProblem)
    }

    private(set) var status: ReplicaStatus
    private let url: ReplicaURL
    private var lastError: (problem: LitestreamProblem, at: Date)?
    private var failedStarts = 0
    private var startedAt = Date.distantPast
    /// Since when the newest transaction has been another than that of the database.
    private var behindSince: Date?
    /// The term from which Litestream fetches.
    private var followed = ReplicaTerm.first
    /// Whether the URL has no state (of the current term) yet.
    private var isWaiting = false

    /// After so many seconds without a new state, while there are newer transactions, Litestream does not find its way to them.
    static let patience = 60.0
    private static let backoff = Backoff(.seconds(1), upTo: .seconds(60))

    /// - parameter last: what the follower before has reported.
    init(url: ReplicaURL, version: String, follower: ProcessIdentity, continuing last: ReplicaStatus?, at now: Date) {
        var status = ReplicaStatus(state: .starting, since: now, url: url.shown)
        status.identity = follower
        status.version = version
        status.transaction = last?.transaction
        (status.term, status.termToken) = (last?.term, last?.termToken)
        status.time = last?.time
        status.arrived = last?.arrived
        self.status = status
        self.url = url
    }

    /// How long to wait before Litestream is started again, in seconds.
    var pause: Double { isWaiting ? 2 : Double(Self.backoff.pause(after: failedStarts)) / 1e9 }

    /// The last transaction of the followed term that the database has; nil when it has none.
    var transactionInTerm: String? {
        (status.term ?? 0, status.termToken ?? 0) == (followed.number, followed.token) ? status.transaction : nil
    }

    /// Whether Litestream should begin again with a whole restore.
    func isStuck(at now: Date) -> Bool {
        behindSince.map { now.timeIntervalSince(max($0, startedAt)) > Self.patience } ?? false
    }

    mutating func handle(_ event: Event, at now: Date) {
        switch event {
        case .started(let pid):
            status.litestream = pid
            lastError = nil
            startedAt = now
            enter(.starting, at: now)
        case .isInTerm(let term):
            if term != followed { (status.newestTransaction, status.newestTime, behindSince) = (nil, nil, nil) }
            followed = term
            status.newestTerm = term.number == 0 ? nil : term.number
        case .log(let line):
            guard line.isError else { return }
            isWaiting = RestoreFailure.isNothingFound(line.text)
            let problem = isWaiting ? nothingYet : LitestreamProblem(message: line.text, of: url)
            lastError = (problem, now)
            enter(.failing, problem, at: now)
        case .copied(let transaction):
            if transactionInTerm != transaction {
                status.transaction = transaction
                status.term = followed.number == 0 ? nil : followed.number
                status.termToken = followed.number == 0 ? nil : followed.token
                status.time = nil
            }
            status.arrived = now
            lastError = nil
            failedStarts = 0
            isWaiting = false
            noteDistance(at: now)
            enter(.following, at: now)
        case .notCopied(let problem):
            lastError = (problem, now)
            enter(.failing, problem, at: now)
        case .listed(let transactions, let term):
            guard term == followed else { return }
            status.checked = now
            status.newestTransaction = transactions.newest?.transaction
            status.newestTime = transactions.newest?.time
            if let transaction = transactionInTerm, let time = transactions.time(of: transaction) {
                status.time = time
            }
            noteDistance(at: now)
            judge(at: now)
        case .ended(let exit):
            failedStarts = now.timeIntervalSince(startedAt) > Double(Self.backoff.longest) / 1e9 ? 1 : failedStarts + 1
            status.litestream = nil
            if isWaiting { return enter(.failing, nothingYet, at: now) }
            enter(.ended, LitestreamProblem(ended: exit, after: lastError?.problem), at: now)
        case .notStarted(let problem):
            failedStarts += 1
            status.litestream = nil
            enter(.ended, problem, at: now)
        }
    }

    private var nothingYet: LitestreamProblem {
        LitestreamProblem(.nothingYet, followed.number == 0 ? nil : "term \(followed.number)")
    }

    private mutating func noteDistance(at now: Date) {
        guard let newest = status.newestTransaction, (transactionInTerm ?? "") < newest else {
            return behindSince = nil
        }
        behindSince = behindSince ?? now
    }

    /// An error counts until a state comes, or there is nothing newer.
    private mutating func judge(at now: Date) {
        guard status.litestream != nil, let transaction = transactionInTerm else { return }
        if let newest = status.newestTransaction, newest < transaction {
            let detail = "the newest transaction there is \(newest), and this database has \(transaction)"
            return enter(.failing, LitestreamProblem(.replaced, detail), at: now)
        }
        guard status.state != .following, lastError.map({ now.timeIntervalSince($0.at) > 30 }) ?? true else { return }
        if status.newestTransaction == transaction { enter(.following, at: now) }
    }

    private mutating func enter(_ state: ReplicaStatus.State, _ problem: LitestreamProblem? = nil, at now: Date) {
        if status.state != state { status.since = now }
        status.state = state
        status.set(problem?.cause, detail: problem?.detail)
    }
}

/// The transactions that Litestream has uploaded (`litestream ltx -json`).
struct FollowedTransactions: Equatable {
    struct Transaction: Equatable {
        let transaction: String
        let time: Date?
    }

    private let all: [Transaction]

    /// - parameter text: the output; nil if it is not understood.
    init?(_ text: String) {
        struct File: Decodable {
            let last: String
            let timestamp: String
            enum CodingKeys: String, CodingKey { case last = "max_txid", timestamp }
        }
        guard let files = try? JSONDecoder().decode([File].self, from: Data(text.utf8)) else { return nil }
        all = files.map { file in
            let time = RestoreTime(file.timestamp).map { Date(timeIntervalSince1970: Double($0.milliseconds) / 1000) }
            return Transaction(transaction: file.last, time: time)
        }
    }

    var newest: Transaction? { all.max { $0.transaction < $1.transaction } }

    /// When the state of a transaction was uploaded. Compacted files have the time of their last transaction, as far as it is known.
    func time(of transaction: String) -> Date? {
        all.filter { $0.transaction == transaction }.compactMap(\.time).min()
    }
}
