import RoundtableKernel

extension SystemLocks {
    /// The processes that have a database open, or use it at this moment, by their locks on the file itself or on `-shm`. In WAL mode,
    /// every connection holds such a lock while it is open; otherwise, while it reads or writes. Empty when the system does not list
    /// locks.
    package static func users(databasePath: String) -> [Int32] {
        #if os(Linux)
            let files = [databasePath, databasePath + "-shm"].compactMap(LockedFile.init)
            let locks = (list() ?? []).filter { lock in lock.isNamed && files.contains { $0.has(lock) } }
            return Set(locks.map(\.pid)).sorted()
        #else
            return []
        #endif
    }
}
