import Synchronization

/// The state of an ``Observatory``: whether there is a connection, what uses it, and what is being closed. It is a pure value, which
/// `Observatory` holds under its lock.
///
/// A transition calls no closure and takes no lock. It returns what must be done outside of the lock, and what it removes, because
/// releasing a value of the user's may call the user's code.
struct ObservatoryState<Connection: Sendable, Feed: Sendable, Position: Sendable>: Sendable {
    typealias Running = (connection: Connection, feed: Feed)

    enum Phase: Sendable {
        /// There is no connection until an observation needs one. The value is the position of the last feed.
        case resting(Position?)
        /// The connection is open, and its feed delivers the changes that were missed.
        case starting(Connection)
        case running(Connection, Feed)
        /// There is no connection, and none may be opened. The value is the position of the last feed.
        case parked(Position?)
        case closed
    }

    private(set) var phase = Phase.resting(nil)
    private(set) var isPaused = false

    /// The bridges deliver changes to GRDB's observers of the observation connection and of the writer connection; nil until there may
    /// be some.
    var valueBridge: ObserverBridge?
    var writerBridge: ObserverBridge?

    /// Whether an observation on the writer was started while this was parked.
    private(set) var isWriterWaiting = false
    /// Whether this was unparked, and the observations were not restarted since.
    private var awaitsRestart = false

    /// The number of observations that are being started on the connection.
    private(set) var borrowers = 0
    private(set) var observations: [ObjectIdentifier: PersistentObservation] = [:]
    private(set) var consumers: [ObjectIdentifier: ChangeBuffer] = [:]
    /// The closures to call when this is closed, by number.
    private(set) var followers: [UInt64: @Sendable () -> Void] = [:]
    private var lastFollower: UInt64 = 0

    /// The connections that were given up, and on which observations may still be being started.
    private(set) var lent: [Connection] = []
    /// The number of connections that are not lent any more, and whose closing has not begun.
    private var returned = 0
}

// MARK: - The connection

extension ObservatoryState {
    /// The open connection; nil when there is none.
    var connection: Connection? {
        switch phase {
        case .starting(let connection), .running(let connection, _): connection
        case .resting, .parked, .closed: nil
        }
    }

    var running: Running? {
        if case .running(let connection, let feed) = phase { return (connection, feed) }
        return nil
    }

    var isClosed: Bool {
        if case .closed = phase { return true }
        return false
    }

    /// The position of the last feed; nil when there was none, or when a feed runs.
    var lastPosition: Position? {
        switch phase {
        case .resting(let position), .parked(let position): position
        case .starting, .running, .closed: nil
        }
    }

    /// Notes the connection that was opened. Its feed must be started next.
    ///
    /// - returns: whether the feed must not deliver changes yet.
    mutating func start(_ connection: Connection) -> Bool {
        guard case .resting = phase else { impossible() }
        phase = .starting(connection)
        return isPaused
    }

    /// Notes that the feed was started.
    mutating func run(_ feed: Feed) {
        guard case .starting(let connection) = phase else { impossible() }
        phase = .running(connection, feed)
    }

    private func impossible(_ transition: String = #function) -> Never {
        preconditionFailure("\(transition) is not possible in the phase \(phase)")
    }
}

// MARK: - Pausing

extension ObservatoryState {
    /// What has to be paused or resumed.
    typealias Delivery = (feed: Feed?, bridges: [ObserverBridge])

    mutating func pause() -> Delivery {
        isPaused = true
        return delivery
    }

    mutating func resume() -> Delivery {
        isPaused = false
        return delivery
    }

    private var delivery: Delivery { (running?.feed, [valueBridge, writerBridge].compactMap { $0 }) }
}

// MARK: - Parking

extension ObservatoryState {
    /// What has to end because this was parked.
    struct Parked: Sendable {
        /// The connection to give up; nil when there was none.
        var connection: Connection?
        var observations: [PersistentObservation] = []
        var valueBridge: ObserverBridge?
        var writerBridge: ObserverBridge?
    }

    /// - parameter position: the position of the feed; nil when none runs.
    mutating func park(at position: Position?) -> Parked {
        var parked = Parked(writerBridge: writerBridge)
        switch phase {
        case .running(let connection, _):
            parked.connection = connection
            parked.observations = Array(observations.values)
            parked.valueBridge = valueBridge
            phase = .parked(position)
        case .resting(let last): phase = .parked(last)
        case .starting: impossible()
        case .parked, .closed: break
        }
        return parked
    }

    /// - returns: whether the connection must be opened again.
    mutating func unpark() -> Bool {
        guard case .parked(let position) = phase else { return false }
        phase = .resting(position)
        awaitsRestart = position != nil || !observations.isEmpty || isWriterWaiting
        return awaitsRestart
    }

    /// - returns: whether the observations must be restarted, because this was unparked.
    mutating func beginRestart() -> Bool {
        defer { awaitsRestart = false }
        return awaitsRestart
    }

    /// Gives up a connection, which is closed when no observation is being started.
    mutating func lend(_ connection: Connection) { lent.append(connection) }

    /// The number of connections that were given up, and are not being closed yet.
    var unclosed: Int { lent.count + returned }

    /// - returns: the lent connections, if no observation is being started. The caller must begin to close them.
    mutating func takeReturned() -> [Connection] {
        guard borrowers == 0 else { return [] }
        returned += lent.count
        defer { lent = [] }
        return lent
    }

    /// Notes that as many of the connections that were taken by `takeReturned` are being closed.
    mutating func didBeginClosing(_ count: Int) { returned -= count }

    mutating func awaitWriter() { isWriterWaiting = true }

    /// - returns: whether an observation on the writer was started while this was parked.
    mutating func endAwaitingWriter() -> Bool {
        defer { isWriterWaiting = false }
        return isWriterWaiting
    }
}

// MARK: - Observations, consumers and followers

extension ObservatoryState {
    mutating func borrow() { borrowers += 1 }

    /// - returns: the same as `takeReturned`.
    mutating func giveBack() -> [Connection] {
        borrowers -= 1
        return takeReturned()
    }

    mutating func add(_ observation: PersistentObservation) {
        observations[ObjectIdentifier(observation)] = observation
    }

    mutating func remove(_ observation: PersistentObservation) -> PersistentObservation? {
        observations.removeValue(forKey: ObjectIdentifier(observation))
    }

    /// - returns: false when this is closed. The caller must end the consumer then.
    mutating func add(_ consumer: ChangeBuffer) -> Bool {
        if isClosed { return false }
        consumers[ObjectIdentifier(consumer)] = consumer
        return true
    }

    mutating func removeConsumer(_ key: ObjectIdentifier) -> ChangeBuffer? { consumers.removeValue(forKey: key) }

    /// - returns: the number to pass to `removeFollower`; nil when this is closed.
    mutating func addFollower(_ end: @escaping @Sendable () -> Void) -> UInt64? {
        if isClosed { return nil }
        lastFollower += 1
        followers[lastFollower] = end
        return lastFollower
    }

    mutating func removeFollower(_ number: UInt64) -> (@Sendable () -> Void)? { followers.removeValue(forKey: number) }

    /// What has to end because this was closed.
    struct Ended: Sendable {
        var running: Running?
        var lastPosition: Position?
        var followers: [@Sendable () -> Void] = []
        var consumers: [ChangeBuffer] = []
        var observations: [PersistentObservation] = []
    }

    mutating func close() -> Ended {
        if case .starting = phase { impossible() }
        defer { (phase, followers, consumers) = (.closed, [:], [:]) }
        return Ended(
            running: running,
            lastPosition: lastPosition,
            followers: Array(followers.values),
            consumers: Array(consumers.values),
            observations: Array(observations.values)
        )
    }
}
