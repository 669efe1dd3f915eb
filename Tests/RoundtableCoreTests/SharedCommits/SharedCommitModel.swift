import RoundtableUnitSupport

@testable import RoundtableCore

/// A world of tasks that write asynchronously, with the writer's queue, the gate, SQLite's write lock, and a raw handle of another program.
/// `CommitGroups` and `SharedTransaction` are the library's; the rest does what `SharedDatabase+SharedCommits.swift` does around them.
/// Each step is one event of the groups, or one of the database, so walking all steps walks all interleavings.
struct SharedCommitModel: Hashable {
    typealias Group = CommitGroups<Int>.Group
    typealias Transaction = SharedTransaction<Int>

    /// What may still go wrong.
    struct Budget: Hashable {
        /// A closure throws after it has written.
        var failures = 0
        /// A closure ends the transaction of which it is a part, as `ON CONFLICT ROLLBACK` does.
        var rollbacks = 0
        /// A commit fails, because the disk is full.
        var commitFailures = 0
        /// The writer no longer waits for the write lock.
        var timeouts = 0
        var cancellations = 0
        /// The gate closes, and opens again later.
        var closings = 0
        /// The slice is over after a write.
        var slices = 0
        /// The raw handle commits.
        var foreignCommits = 0
        /// The process is killed.
        var deaths = 0
    }

    /// Why a write has failed. It is lost when the closure of another one has ended the transaction.
    enum Failure: Hashable { case ownClosure, cancelled, timeout, transaction, interrupted, lost }

    enum Result: Hashable {
        case returned
        case threw(Failure)
    }

    enum Job: Hashable {
        case lone(Int)
        case group(Group)
        /// A write of `asyncWrite`, whose caller has continued.
        case scheduled
    }

    struct Task: Hashable {
        enum Activity: Hashable {
            case starting
            case enteringAlone
            case awaitingAlone
            case endingAlone(Result?)
            case joining
            case scheduling(Group)
            case awaiting
            case outside
            case done(Result)
        }

        var activity = Activity.starting
        var isCancelled = false
        /// The group that the write has joined last.
        var group: Group?
        /// Whether its closure has run.
        var hasRun = false
        /// Whether its closure has run when the parts of other writes were in the transaction.
        var hasSeenParts = false
        /// What is known of the write that waits: its outcome, and the failure.
        var outcome: Transaction.Outcome?
        /// What the closure has thrown, or why the write has failed.
        var failure: Failure?
        /// Whether the write that waits was taken out of its group.
        var isTaken = false
        /// The order in which the write has joined, among all.
        var arrival = 0
        /// Whether the scheduled write was requested before.
        var isAfterScheduled = false

        var result: Result? { if case .done(let result) = activity { result } else { nil } }
    }

    /// What the thread of the writer's queue does.
    enum Writer: Hashable {
        case idle
        case starting(Job)
        case waitingForLock(Job)
        case taking
        case running(Int, Transaction.Extent)
        case finishing
        case ending(Transaction.End, Failure?)
        case scheduling(Group)
        case delivering
    }

    enum Holder: Hashable { case writer, foreign }

    /// The call of `asyncWrite`, at any time.
    enum Scheduling: Hashable { case toCall, toCloseGroup, hasReturned }

    var groups = CommitGroups<Int>()
    var tasks: [Task]
    /// nil when nothing is scheduled.
    var scheduling: Scheduling?
    var hasScheduledRun = false
    var queue: [Job] = []
    var writer = Writer.idle
    /// The access of the writer: its job, the last ticket, the transaction of a group, and whether all writes of the group were cancelled.
    var job: Job?
    var lastTicket: UInt64 = 0
    /// How many writes were requested, and how many of them when the access began.
    var arrivals = 0
    var arrivalsAtAccess = 0
    /// The group that was founded last, which is the one that writes join.
    var lastGroup: Group = 0
    /// The lines of code whose closures have ended a transaction. Every second task has the same line.
    var endings: Set<Int> = []
    var transaction = Transaction()
    var isAccessCancelled = false
    /// The outcomes that the writer has not delivered yet.
    var outcomes: [Outcome] = []
    /// The order of the last write of the transaction.
    var lastArrival = 0
    var isGateClosed = false
    var isAborted = false
    var lock: Holder?
    /// How often the part of each write is in the open transaction, and in the database.
    var pending: [Int]
    var committed: [Int]
    var isDead = false
    var budget: Budget
    let broken: Break?
    var violation: String?

    struct Outcome: Hashable {
        let write: Int
        let outcome: Transaction.Outcome
        let failure: Failure?
    }

    /// What is broken on purpose around the groups, to show that the walk detects it.
    enum Break: CaseIterable {
        /// What a closure has written stays, although it threw.
        case failedPartStays
        /// The writes of a group that the gate refuses are not notified.
        case refusesWithoutNotifying
        /// A write whose closure has ended a transaction may share the next one.
        case forgetsEndings
        /// Writes run again when another write has ended their transaction.
        case runsLostAgain
        /// A closure that has ended the transaction of other writes is not noted.
        case hidesTheCulprit
        /// The rest of a group is not scheduled again.
        case forgetsTheRest
        /// A transaction that has committed counts as failed.
        case failsTheCommitted
        /// A call of `asyncWrite` closes the group before it has its place on the queue.
        case closesGroupEarly
    }

    func site(of task: Int) -> Int { task % 2 }

    init(tasks count: Int, schedules: Bool = false, budget: Budget, broken: Break? = nil) {
        tasks = Array(repeating: Task(), count: count)
        scheduling = schedules ? .toCall : nil
        pending = Array(repeating: 0, count: count)
        committed = pending
        (self.budget, self.broken) = (budget, broken)
    }
}
