import CRoundtableShims
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The locks that prove to other pid namespaces that the owners of slots are alive (rules G4, P9). Each lock covers one byte, where
/// the slot begins.
///
/// The locks belong to an open file description of their own, not to that of the mapping, which children of fork(2) inherit and
/// keep. The descriptor is opened when it is first needed, and lives as long as the object. A process that closes descriptors which it
/// has not opened releases these locks: to other namespaces it looks dead, so it loses its slot, and claims another.
final class SlotLocks: Sendable {
    private struct State {
        var descriptor: Int32 = -1
        var shimIndex: Int32 = -1
        /// The fork generation in which the descriptor was opened. A child of fork(2) closes it, and may reuse its number for another file.
        var forkGeneration: UInt32 = 0
        /// The owners for which slots are locked. The system does not report a lock to the file description that holds it.
        var owners: [Int: UInt64] = [:]
    }

    private let path: String
    private let file: MappedFile
    private let state = Mutex(State())

    /// - parameter file: the mapping of the control block at `path`.
    init(path: String, file: MappedFile) { (self.path, self.file) = (path, file) }

    deinit {
        state.withLock { state in
            guard state.descriptor >= 0, state.forkGeneration == rt_fork_generation() else { return }
            rt_keep_in_child(state.shimIndex)
            close(state.descriptor)
        }
    }

    /// Acquires the lock of a slot, and then claims the slot (rule P9). In this order, the slot of a live owner that can lock is always locked.
    ///
    /// - parameter claim: writes the owner word, and returns whether `owner` owns the slot now.
    /// - returns: whether the slot is locked: it is not where the system does not support such locks, or not on this file. nil when another
    ///   participant owns the slot.
    func take(_ slot: Int, for owner: UInt64, claim: () -> Bool) -> Bool? {
        state.withLock { state in
            guard file.isWritable, let descriptor = descriptor(&state),
                let isTaken = try? System.lock(byte: Self.byte(slot), of: descriptor, path)
            else { return claim() ? false : nil }
            guard isTaken else { return nil }
            guard claim() else {
                // Another participant that uses this object may hold the lock.
                if state.owners[slot] == nil { System.unlock(byte: Self.byte(slot), of: descriptor) }
                return nil
            }
            state.owners[slot] = owner
            return true
        }
    }

    /// Releases the lock of a slot if it is still held for `owner`.
    func drop(_ slot: Int, of owner: UInt64) {
        state.withLock { state in
            guard state.owners[slot] == owner else { return }
            state.owners[slot] = nil
            if let descriptor = descriptor(&state) { System.unlock(byte: Self.byte(slot), of: descriptor) }
        }
    }

    /// Whether the lock of a slot is held; nil if the system does not report it.
    func isHeld(_ slot: Int) -> Bool? {
        state.withLock { state in
            if state.owners[slot] != nil { return true }
            guard let descriptor = descriptor(&state) else { return nil }
            return try? System.isLocked(byte: Self.byte(slot), of: descriptor, path)
        }
    }

    private static func byte(_ slot: Int) -> Int { Layout.headerSize + slot * Layout.slotSize }

    private func descriptor(_ state: inout State) -> Int32? {
        #if os(Linux)
            if state.descriptor >= 0 {
                return state.forkGeneration == rt_fork_generation() ? state.descriptor : nil
            }
            guard let descriptor = opened() else { return nil }
            state.descriptor = descriptor
            state.forkGeneration = rt_fork_generation()
            state.shimIndex = rt_close_in_child(descriptor)
            return descriptor
        #else
            return nil
        #endif
    }

    #if os(Linux)
        /// Opens the file; nil if it cannot be opened or has been replaced (rule L4).
        private func opened() -> Int32? {
            guard (try? System.identity(ofFileAt: path)) == file.identity else { return nil }
            let flags = (file.isWritable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
            guard let descriptor = try? System.perform(.open, path, { open(path, flags) }) else { return nil }
            var status = stat()
            guard (try? System.perform(.fstat, path) { fstat(descriptor, &status) }) != nil,
                FileIdentity(status) == file.identity
            else {
                // The new file may belong to a database, so its descriptor is not closed (rule G5).
                return nil
            }
            return descriptor
        }
    #endif
}
