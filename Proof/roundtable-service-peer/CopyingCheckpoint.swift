#if Service
    import CRoundtableCheckpointVFS
    import Synchronization

    /// A checkpoint that stops before it writes the first page to the database file, as on a disk that does not answer.
    enum CopyingCheckpoint {
        fileprivate static let hasBegun = Atomic(false)

        /// Holds the first checkpoint of this process. Call it before a database is opened.
        static func hold(until moment: Moment) {
            precondition(rt_checkpoint_vfs_register("roundtable-checkpoint", 1) == 0, "the VFS cannot be registered")
            rt_checkpoint_vfs_watch(
                RT_VFS_CHECKPOINTS,
                { context, file, call in
                    guard let context, file == RT_VFS_MAIN_FILE, call == RT_VFS_WRITE,
                        !CopyingCheckpoint.hasBegun.exchange(true, ordering: .relaxed)
                    else { return RT_VFS_GO_ON }
                    ServicePeer.say("copying")
                    Unmanaged<Moment>.fromOpaque(context).takeUnretainedValue().block()
                    return RT_VFS_GO_ON
                },
                Unmanaged.passRetained(moment).toOpaque()
            )
        }
    }
#endif
