import Dispatch
import Synchronization

/// Reports that checkpoints are held up or fail, without repeating a warning about the same read.
final class CheckpointWarnings: Sendable {
    /// Identifies one read of one process.
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
        /// The reads that were reported and still hold frames back.
        var told: Set<PinIdentity> = []
        /// The length of the WAL at the last report, in frames; nil before the first one.
        var frames: Int?
        /// The failures reported since the last checkpoint that succeeded: SQLite's result codes.
        var failures: Set<Int32> = []
    }

    /// A read younger than this does not cause a report by itself, in seconds.
    private static let youth = 0.25

    private let reporter: EventReporter
    private let state = Mutex(State())
    private let looking = DispatchQueue(label: "roundtable.health", qos: .utility)

    init(_ reporter: EventReporter) { self.reporter = reporter }

    func later(_ body: @escaping @Sendable () -> Void) { looking.async(execute: body) }

    /// Reports that a checkpoint was held up or failed, and that the WAL is longer than it should be. May be called from any thread; returns at
    /// once.
    func heldUp(_ health: WALHealth) {
        if isNews(health) { reporter.report(CheckpointEvent(health)) }
    }

    /// Forgets the reported failures, so that the next failure is reported again.
    func recovered() { state.withLock { $0.failures = [] } }

    /// Whether there is something new to report: another read holds back the most frames, checkpoints fail in another way, or the WAL
    /// is twice as long as at the last report.
    func isNews(_ health: WALHealth) -> Bool {
        let pins = health.pins.map(PinIdentity.init)
        return state.withLock { state in
            state.told.formIntersection(pins)
            // If the WAL has been restarted, its growth is counted from there.
            state.frames = state.frames.map { min($0, health.committedFrames) }
            let hasDoubled = state.frames.map { health.committedFrames >= 2 * max(1, $0) } ?? true
            // A young read will end soon.
            let isLong = health.pins.first.map { $0.ageSeconds ?? .infinity >= Self.youth } ?? false
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
    /// Calls the following on another thread.
    func lookLaterWhatHoldsCheckpointsUp(_ obstacle: CheckpointPauses.Obstacle) {
        checkpointWarnings.later { [weak self] in self?.lookWhatHoldsCheckpointsUp(obstacle) }
    }

    /// Inspects the WAL after an attempt at a checkpoint was held up or failed. Readers in the way are asked to advance (rule K8). If
    /// the WAL is longer than it should be, that is reported.
    private func lookWhatHoldsCheckpointsUp(_ obstacle: CheckpointPauses.Obstacle) {
        // If the WAL cannot be inspected, the next attempt fails for the same reason.
        guard let state = try? readers.walState(insideWrite: false) else { return }
        if obstacle == .readers { seat.participant?.block.askToAdvance(end: state.end) }
        let limits = writer.checkpointer?.limits ?? .default
        guard state.frames.committed >= limits.need else { return }
        if let health = try? walHealth() { checkpointWarnings.heldUp(health) }
    }
}
