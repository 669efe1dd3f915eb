import RoundtableKernel

extension SystemLocks {
    /// The processes that have a database open, or use it at this moment, by their locks on the file itself or on `-shm`. In WAL mode,
    /// every connection holds such a lock while it is open; otherwise, while it reads or writes. Empty when the system does not list
    /// locks.
    package static func users(databasePath: String) -> [Int32] {
        #if os(Linux)
            let pids = locks(onFilesAt: [databasePath, databasePath + "-shm"]).map(\.pid)
            return Set(pids).sorted()
        #else
            return []
        #endif
    }

    #if os(Linux)
        private static func locks(onFilesAt paths: [String]) -> [Lock] {
            guard let bytes = try? ProcessTable.contents(of: "/proc/locks") else { return [] }
            let files = paths.compactMap(LockedFile.init)
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap(Lock.init)
                .filter { lock in files.contains { $0.has(lock) } }
        }
    #endif
}
