import Foundation
import GRDBSQLite
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

/// Lets SQLite fail to open files of this process for writing, as when no descriptors are left. SQLite then opens them for reading only.
enum RefusedOpenings {
    private typealias Open = @convention(c) (UnsafePointer<CChar>?, CInt, CInt) -> CInt

    private struct State {
        var original: Open?
        /// How often each file is still refused, by its path without links.
        var remaining: [String: Int] = [:]
    }

    private static let state = Mutex(State())

    /// Refuses the file the next times that SQLite opens it for writing. This never ends for other files, which the hook passes on.
    static func refuse(_ path: String, times: Int) throws {
        let vfs = try #require(sqlite3_vfs_find("unix"))
        try state.withLock { state in
            state.remaining[path] = times
            if state.original != nil { return }
            let get = try #require(vfs.pointee.xGetSystemCall)
            let set = try #require(vfs.pointee.xSetSystemCall)
            state.original = unsafeBitCast(get(vfs, "open"), to: Open.self)
            let hook: Open = { path, flags, mode in
                guard let path, let original = RefusedOpenings.state.withLock({ $0.original }) else { return -1 }
                if flags & O_ACCMODE == O_RDWR, RefusedOpenings.takes(String(cString: path)) {
                    errno = EMFILE
                    return -1
                }
                return original(path, flags, mode)
            }
            try #require(set(vfs, "open", unsafeBitCast(hook, to: sqlite3_syscall_ptr.self)) == SQLITE_OK)
        }
    }

    /// How often the file is still refused.
    static func remaining(_ path: String) -> Int { state.withLock { $0.remaining[path] ?? 0 } }

    private static func takes(_ path: String) -> Bool {
        state.withLock { state in
            guard let count = state.remaining[path], count > 0 else { return false }
            state.remaining[path] = count - 1
            return true
        }
    }
}
