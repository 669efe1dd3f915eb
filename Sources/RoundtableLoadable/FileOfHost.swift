import CRoundtableLoadable
import Synchronization

/// The database file as the host's SQLite has opened it. It is used on the thread that uses the host's connection.
struct FileOfHost {
    private let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { self.pointer = pointer }

    /// Whether SQLite's write lock is free (rule T12). The connection must hold no lock.
    var isWriteLockFree: Bool { rtl_file_is_write_lock_free(pointer) != 0 }

    /// Whether the connection already reads in the transaction that requests the write lock.
    var isUpgrading: Bool { rtl_file_is_upgrading(pointer) != 0 }

    /// The commit counter; nil if the wal-index is not mapped, not initialized, or being changed. The write lock must be held, so that
    /// no commit is made meanwhile.
    var commitCounter: UInt32? {
        guard let page = rtl_file_wal_index(pointer) else { return nil }
        // Two copies of the header, in which the counter is at 8 and the byte at 12 shows that it is initialized.
        let first = word(page, 8)
        let isInitialized = word(page, 12) & 0xFF == 1 && word(page, 48 + 12) & 0xFF == 1
        guard isInitialized, first == word(page, 48 + 8) else { return nil }
        return first
    }

    private func word(_ page: UnsafeRawPointer, _ offset: Int) -> UInt32 {
        UnsafeMutableRawPointer(mutating: page + offset).assumingMemoryBound(to: Atomic<UInt32>.self)
            .pointee.load(ordering: .acquiring)
    }
}
