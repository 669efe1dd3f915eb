import RoundtableJobs

/// Two jobs under one key and two workers, as the rules A2 to A10 have them. It knows no SQL.
struct JobModel: Hashable {
    struct Token: Hashable {
        var attempt: Int64
        var worker: Int
    }

    struct Job: Hashable {
        var state = JobState.waiting
        var attempt: Int64 = 0
        var failures = 0
        var due: Int64 = 0
        /// The attempt that runs, or has completed the job.
        var holder: Token?
        /// All attempts so far, those too that have lost the job and do not know it.
        var issued: [Token] = []
    }

    enum Step: Hashable {
        case add(Int)
        case claim(Int, time: Int64)
        case complete(Int, Token)
        case fail(Int, Token)
        case release(Int, Token)
        case lose(Int)
        case cancel(Int)
        case retry(Int)
    }

    static let maximumAttempts = 2
    static let delay: Int64 = 100
    /// A time at which all is due.
    static let late: Int64 = 1_000

    /// nil: not added.
    var jobs: [Job?] = [nil, nil]

    /// All steps, those too that the rules refuse.
    func steps(maximumClaims: Int64) -> [Step] {
        var steps: [Step] = []
        for job in jobs.indices {
            guard let known = jobs[job] else {
                // The second one has the larger id.
                if job == 0 || jobs[0] != nil { steps.append(.add(job)) }
                continue
            }
            for token in known.issued {
                steps += [.complete(job, token), .fail(job, token), .release(job, token)]
            }
            steps += [.cancel(job), .retry(job)]
        }
        for worker in 0..<2 {
            steps.append(.lose(worker))
            for time in [0, Self.late] {
                let next = next(at: time)
                if next.flatMap({ jobs[$0]?.attempt }) ?? 0 < maximumClaims { steps.append(.claim(worker, time: time)) }
            }
        }
        return steps
    }

    /// Which job is claimed next (rule A3).
    private func next(at time: Int64) -> Int? {
        let candidates = jobs.indices.filter { index in
            guard let job = jobs[index] else { return false }
            return job.state == .waiting || job.state == .scheduled && job.due <= time
        }
        return candidates.min { (jobs[$0]!.due, $0) < (jobs[$1]!.due, $1) }
    }

    private func waits(_ job: Int) -> Bool { jobs[job].map { [.scheduled, .waiting].contains($0.state) } ?? false }

    /// Whether another job waits under the key (rule A9).
    private func isReplaced(_ job: Int) -> Bool { jobs.indices.contains { $0 != job && waits($0) } }

    /// - returns: whether the step does something: otherwise, it is refused or changes nothing.
    @discardableResult
    mutating func take(_ step: Step) -> Bool {
        switch step {
        case .add(let job):
            if isReplaced(job) { return false }
            jobs[job] = Job()
        case .claim(let worker, let time):
            let chosen = next(at: time)
            for index in jobs.indices where jobs[index]?.state == .scheduled && jobs[index]!.due <= time {
                jobs[index]!.state = .waiting
            }
            guard let chosen else { return false }
            jobs[chosen]!.state = .running
            jobs[chosen]!.attempt += 1
            let token = Token(attempt: jobs[chosen]!.attempt, worker: worker)
            jobs[chosen]!.holder = token
            jobs[chosen]!.issued.append(token)
        case .complete(let job, let token):
            guard isRunning(job, token) else { return false }
            jobs[job]!.state = .done
        case .fail(let job, let token):
            guard isRunning(job, token) else { return false }
            jobs[job]!.failures += 1
            let isDead = jobs[job]!.failures >= Self.maximumAttempts
            if isDead { end(job, .dead) } else { bringBack(job, .scheduled, due: Self.delay) }
        case .release(let job, let token):
            guard isRunning(job, token) else { return false }
            bringBack(job, .waiting)
        case .lose(let worker):
            let lost = jobs.indices.filter { jobs[$0]?.state == .running && jobs[$0]!.holder!.worker == worker }
            // The newer one of two under one key comes back.
            for job in lost.reversed() {
                jobs[job]!.failures += 1
                if jobs[job]!.failures >= Self.maximumAttempts { end(job, .dead) } else { bringBack(job, .waiting) }
            }
            return !lost.isEmpty
        case .cancel(let job):
            guard waits(job) || jobs[job]?.state == .running else { return false }
            end(job, .cancelled)
        case .retry(let job):
            guard let state = jobs[job]?.state, [.dead, .cancelled].contains(state), !isReplaced(job) else {
                return false
            }
            jobs[job]!.failures = 0
            bringBack(job, .waiting, due: 0)
        }
        return true
    }

    private func isRunning(_ job: Int, _ token: Token) -> Bool {
        jobs[job]?.state == .running && jobs[job]?.holder == token
    }

    /// Whether this attempt holds the job, or has completed it.
    func holds(_ job: Int, _ token: Token) -> Bool { jobs[job]?.holder == token }

    private mutating func end(_ job: Int, _ state: JobState) {
        jobs[job]!.state = state
        jobs[job]!.holder = nil
    }

    private mutating func bringBack(_ job: Int, _ state: JobState, due: Int64? = nil) {
        jobs[job]!.holder = nil
        if isReplaced(job) {
            jobs[job]!.state = .cancelled
        } else {
            jobs[job]!.state = state
            if let due { jobs[job]!.due = due }
        }
    }

    /// What is wrong with this world.
    var problem: String? {
        if waits(0), waits(1) { return "two jobs wait under one key" }
        for case let job? in jobs {
            if (job.state == .running || job.state == .done) != (job.holder != nil) { return "wrong job holder" }
            if Set(job.issued.map(\.attempt)).count != job.issued.count { return "two workers had one attempt" }
        }
        return nil
    }
}

/// What a state can become, and by what (the table of the rules A2).
enum JobTransition: String, Sendable, CaseIterable {
    case promote, claim, complete, postpone, bury, release, lose, cancel, retry

    /// The states in which a job must be.
    var sources: Set<JobState> {
        switch self {
        case .promote: [.scheduled]
        case .claim: [.waiting]
        case .complete, .postpone, .bury, .release, .lose: [.running]
        case .cancel: [.scheduled, .waiting, .running]
        case .retry: [.dead, .cancelled]
        }
    }

    /// The state that the job gets, unless it must give way to another with the same key (rule A9).
    var target: JobState {
        switch self {
        case .promote, .release, .lose, .retry: .waiting
        case .claim: .running
        case .complete: .done
        case .postpone: .scheduled
        case .bury: .dead
        case .cancel: .cancelled
        }
    }
}
