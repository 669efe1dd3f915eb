/// Decides which requests of a reader pool are granted: first come, first served, up to N reads at the same time, and each barrier alone.
///
/// It has no access to connections, locks or threads: `ReaderPool` calls it with its lock. While the pool is parked, only closing barriers
/// are granted. Requests that block a thread fail then, and other requests wait.
struct ReaderAdmission {
    enum Kind {
        case read, barrier
        /// A barrier that a parked pool also grants.
        case closing
    }

    enum Answer { case granted, parked, cancelled, closed }

    struct Request {
        let id: UInt64
        let kind: Kind
        /// Whether the request waits while the pool is parked. Otherwise it fails.
        let isPatient: Bool
        /// Called outside the lock, once.
        let resume: @Sendable (Answer) -> Void

        fileprivate var failsWhileParked: Bool { !isPatient && kind != .closing }
    }

    private let maximumCount: Int
    /// The number of granted reads that have not ended.
    private(set) var readCount = 0
    private var hasBarrier = false
    private var requests: [Request] = []
    private(set) var isParked = false
    private(set) var isClosed = false

    init(maximumCount: Int) { self.maximumCount = maximumCount }

    /// The number of waiting reads and barriers.
    var waitingCount: Int { requests.count }

    // MARK: Requesting

    /// Returns the answer to a request that need not wait; nil when the request has to wait.
    mutating func answerAtOnce(_ kind: Kind, isPatient: Bool) -> Answer? {
        if isClosed { return .closed }
        if isParked {
            if kind == .closing { return grant(kind) ? .granted : nil }
            return isPatient ? nil : .parked
        }
        guard requests.isEmpty else { return nil }
        return grant(kind) ? .granted : nil
    }

    /// Grants a read that a barrier would block, although there may be more reads than the maximum then. The writer connection, which a
    /// barrier needs too, must be held by the caller.
    ///
    /// - returns: false when no barrier blocks the read, which has to wait as others do.
    mutating func enterBesideBarriers() -> Bool {
        guard !isParked, hasBarrier || requests.contains(where: { $0.kind != .read }) else { return false }
        readCount += 1
        return true
    }

    /// Lets a request wait. `grantNext()` grants it.
    ///
    /// - returns: the answer to a request that is refused; nil when it waits.
    mutating func add(_ request: Request) -> Answer? {
        if isClosed { return .closed }
        if isParked, request.failsWhileParked { return .parked }
        requests.append(request)
        return nil
    }

    /// Takes a waiting request out of the queue; nil when it does not wait any more.
    mutating func remove(_ id: UInt64) -> Request? {
        requests.firstIndex { $0.id == id }.map { requests.remove(at: $0) }
    }

    // MARK: Granting

    /// Grants the waiting requests that can be granted now, in order. The caller resumes them.
    mutating func grantNext() -> [Request] {
        var granted: [Request] = []
        while let next, grant(requests[next].kind) { granted.append(requests.remove(at: next)) }
        return granted
    }

    /// The index of the next request to grant.
    private var next: Int? {
        if isParked { return requests.firstIndex { $0.kind == .closing } }
        return requests.isEmpty ? nil : 0
    }

    private mutating func grant(_ kind: Kind) -> Bool {
        if hasBarrier { return false }
        switch kind {
        case .read:
            guard readCount < maximumCount else { return false }
            readCount += 1
        case .barrier, .closing:
            guard readCount == 0 else { return false }
            hasBarrier = true
        }
        return true
    }

    mutating func endRead() { readCount -= 1 }

    mutating func endBarrier() { hasBarrier = false }

    // MARK: Parking and closing

    /// Stops granting requests, except for closing barriers.
    ///
    /// - parameter leavingCount: the number of idle connections that are going to be closed. Each counts as a read until `endRead()`.
    /// - returns: the requests that fail now.
    mutating func park(leavingCount: Int) -> [Request] {
        isParked = true
        readCount += leavingCount
        defer { requests.removeAll(where: \.failsWhileParked) }
        return requests.filter(\.failsWhileParked)
    }

    mutating func unpark() { isParked = false }

    /// Refuses all later requests.
    ///
    /// - returns: the requests that fail now.
    mutating func close() -> [Request] {
        isClosed = true
        defer { requests = [] }
        return requests
    }
}
