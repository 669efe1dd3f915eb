import CRoundtableCheckpointVFS
import Foundation
import RoundtableTestSupport
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Records the calls of all checkpoints of this process, and applies a `CheckpointFate` at one of them. If asked, it also records the
/// calls of other work on the WAL outside of transactions.
final class CheckpointWitness: Sendable {
    private struct State {
        var calls: [CheckpointSchedule.Point] = []
        var fate: CheckpointFate?
    }

    private let state = Mutex(State())

    /// Watches all connections that are opened from now on, until the process ends.
    init(beyond: Bool) throws {
        try CheckpointWatch.prepare()
        rt_checkpoint_vfs_watch(
            beyond ? RT_VFS_STEPS : RT_VFS_CHECKPOINTS,
            { context, file, call in
                let witness = Unmanaged<CheckpointWitness>.fromOpaque(context!).takeUnretainedValue()
                return witness.order(.init(file, call))
            },
            Unmanaged.passRetained(self).toOpaque()
        )
    }

    /// The calls since the last `begin`.
    var calls: [CheckpointSchedule.Point] { state.withLock(\.calls) }

    /// Forgets the recorded calls, counts from 0 again, and replaces the fate.
    func begin(_ fate: CheckpointFate?) { state.withLock { $0 = State(fate: fate) } }

    private func order(_ point: CheckpointSchedule.Point) -> rt_vfs_order {
        let (number, fate) = state.withLock { state in
            state.calls.append(point)
            let kind = state.fate?.point
            return (state.calls.count { kind == nil || $0 == kind } - 1, state.fate)
        }
        guard let fate else { return RT_VFS_GO_ON }
        let otherwise = fate.countsTooEarly && point == .writeMain ? RT_VFS_COUNT_ALL_AS_COPIED : RT_VFS_GO_ON
        guard number == fate.call, fate.point == nil || fate.point == point else { return otherwise }
        switch fate.moment {
        case .before: raise(SIGKILL)
        case .stoppedBefore: raise(SIGSTOP)
        case .halfway: return RT_VFS_DIE_HALFWAY
        case .after: return RT_VFS_DIE_AFTER
        }
        return otherwise
    }
}
