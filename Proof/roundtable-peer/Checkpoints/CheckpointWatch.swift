import CRoundtableCheckpointVFS
import GRDB
import GRDBSQLite
import RoundtableTestSupport

/// Watches the calls that checkpoints make, through the VFS of CRoundtableTestShims.
final class CheckpointWatch {
    private(set) var calls: [CheckpointSchedule.Point: Int] = [:]
    private let willCall: (CheckpointSchedule.Point, _ ordinal: Int) -> Void

    /// Makes that VFS the default for all connections that this process opens from now on.
    static func prepare() throws {
        let code = rt_checkpoint_vfs_register("roundtable-checkpoint", 1)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }

    init(_ willCall: @escaping (CheckpointSchedule.Point, _ ordinal: Int) -> Void) {
        self.willCall = willCall
    }

    /// Reports the calls of all checkpoints that are made during `body`, on any thread.
    func during<T>(_ body: () throws -> T) rethrows -> T {
        rt_checkpoint_vfs_watch(
            RT_VFS_CHECKPOINTS,
            { context, file, call in
                let watch = Unmanaged<CheckpointWatch>.fromOpaque(context!).takeUnretainedValue()
                let point = CheckpointSchedule.Point(file, call)
                let ordinal = watch.calls[point, default: 0]
                watch.calls[point] = ordinal + 1
                watch.willCall(point, ordinal)
                return RT_VFS_GO_ON
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
        defer { rt_checkpoint_vfs_watch(RT_VFS_CHECKPOINTS, nil, nil) }
        return try body()
    }
}

extension CheckpointSchedule.Point {
    init(_ file: rt_vfs_file, _ call: rt_vfs_call) {
        switch (file, call) {
        case (_, RT_VFS_SHM_LOCK): self = .shmLock
        case (_, RT_VFS_SHM_MAP): self = .shmMap
        case (_, RT_VFS_SHM_BARRIER): self = .shmBarrier
        case (_, RT_VFS_UNFETCH): self = .unfetch
        case (_, RT_VFS_FILE_CONTROL): self = .fileControl
        case (RT_VFS_WAL_FILE, RT_VFS_SYNC): self = .syncWAL
        case (RT_VFS_WAL_FILE, RT_VFS_READ): self = .readWAL
        case (RT_VFS_WAL_FILE, RT_VFS_TRUNCATE): self = .truncateWAL
        case (RT_VFS_MAIN_FILE, RT_VFS_FILE_SIZE): self = .sizeMain
        case (RT_VFS_MAIN_FILE, RT_VFS_FETCH): self = .fetchMain
        case (RT_VFS_MAIN_FILE, RT_VFS_WRITE): self = .writeMain
        case (RT_VFS_MAIN_FILE, RT_VFS_TRUNCATE): self = .truncateMain
        case (RT_VFS_MAIN_FILE, RT_VFS_SYNC): self = .syncMain
        default: self = .other
        }
    }
}
