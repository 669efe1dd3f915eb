import Dispatch
import Synchronization

/// Tells the program that checkpoints are held up, and not again and again of the same.
final class CheckpointWarnings: Sendable {
    /// One read of one process.
    private struct PinIdentity: Hashable {
        let pid: Int32
        let name: String?
        let since: UInt64?

        init(_ pin: WALHealth.Pin) {
            pid = pin.holder.pid
            name = pin.holder.name
            since = pin.since
        }
    }

    private struct State {
        /// Those that were told of and still hold something back.
        var told: Set<PinIdentity> = []
        /// How long the WAL was when it was last told of; nil: never.
        var frames: Int?
        /// How checkpoints have failed since the last one that did not, as far as it was told: SQLite's result codes.
        var failures: Set<Int32> = []
    }

    /// In seconds.
    private static let youth = 0.25

    private let onHeldUp: (@Sendable (WALHealth) -> Void)?
    private let state = Mutex(State())
    /// One call at a time, in order.
    private let queue = DispatchQueue(label: "roundtable.warnings")
    /// Not behind a call that takes its time.
    private let looking = DispatchQueue(label: "roundtable.health")

    init(_ onHeldUp: (@Sendable (WALHealth) -> Void)?) { self.onHeldUp = onHeldUp }

    /// Whether anybody listens: else the health need not be found out.
    var isWanted: Bool { onHeldUp != nil }

    func later(_ body: @escaping @Sendable () -> Void) { looking.async(execute: body) }

    /// A checkpoint was held up, and the WAL is longer than it should be. From any thread; returns at once.
    func heldUp(_ health: WALHealth) {
        guard let onHeldUp, isNews(health) else { return }
        queue.async { onHeldUp(health) }
    }

    /// When they fail again, that is news.
    func recovered() { state.withLock { $0.failures = [] } }

    /// Whether another one holds back most than was told of, or checkpoints fail in another way, or the WAL is twice as long as it was then.
    func isNews(_ health: WALHealth) -> Bool {
        let pins = health.pins.map(PinIdentity.init)
        return state.withLock { state in
            state.told.formIntersection(pins)
            // Begun anew meanwhile: doubled since then.
            state.frames = state.frames.map { min($0, health.committedFrames) }
            let hasDoubled = state.frames.map { health.committedFrames >= 2 * max(1, $0) } ?? true
            // A read that is young will end soon.
            let isLong = health.pins.first.map { $0.age ?? .infinity >= Self.youth } ?? false
            let isAnother = isLong && pins.first.map { !state.told.contains($0) } ?? false
            let failsAnew = health.failure.map { state.failures.insert($0.code).inserted } ?? false
            guard hasDoubled || isAnother || failsAnew else { return false }
            state.told.formUnion(pins.prefix(1))
            state.frames = health.committedFrames
            return true
        }
    }
}

extension SharedDatabase {
    /// An attempt at a checkpoint was held up, or failed: readers in the way are asked to advance (rule K8), and where the WAL is longer than it
    /// should be, the program is told.
    func lookWhatHoldsCheckpointsUp(_ obstacle: CheckpointPauses.Obstacle) {
        // What keeps the WAL from being looked at, the next attempt meets again.
        guard let state = try? readers.walState(insideWrite: false) else { return }
        if obstacle == .readers { seat.participant?.block.askToAdvance(end: state.end) }
        let limits = writer.checkpointer?.limits ?? .default
        guard checkpointWarnings.isWanted, state.frames.committed >= limits.need else { return }
        if let health = try? walHealth() { checkpointWarnings.heldUp(health) }
    }
}
