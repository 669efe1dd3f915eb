/// What a participant reports of its checkpoints: of each, the WAL is longer than it should be.
package enum CheckpointEvent: Sendable, Equatable {
    /// A read, or another process, keeps checkpoints from copying frames.
    case heldUp(WALHealth)
    /// SQLite has failed on the last attempt.
    case failed(WALHealth.Failure, WALHealth)

    init(_ health: WALHealth) {
        self = health.failure.map { .failed($0, health) } ?? .heldUp(health)
    }
}

extension CheckpointEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .heldUp: .warning
        case .failed: .error
        }
    }

    package var text: String {
        switch self {
        case .heldUp(let health):
            let next =
                health.pins.isEmpty
                ? "'roundtable doctor' looks for the cause" : "End that read, or the process that holds it"
            return "checkpoints are held up: \(health.description.withVisibleControls). \(next)"
        case .failed(_, let health):
            return """
                checkpoints fail: \(health.description.withVisibleControls). Commits go on, and the WAL grows: remove the cause, such as a \
                full disk
                """
        }
    }
}
