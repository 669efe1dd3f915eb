import CRoundtableShims

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The identity of a file, independent of its name.
package struct FileIdentity: Hashable, Sendable {
    package let device: UInt64
    package let inode: UInt64

    package init(_ status: stat) {
        device = Self.number(ofDevice: status.st_dev)
        inode = UInt64(status.st_ino)
    }

    /// The number of a device. On Apple's systems `dev_t` is signed, and a negative one is a device like others.
    static func number(ofDevice device: some BinaryInteger) -> UInt64 { UInt64(truncatingIfNeeded: device) }

    /// Creates an identity from stored numbers.
    package init(device: UInt64, inode: UInt64) {
        (self.device, self.inode) = (device, inode)
    }
}

/// A file that is mapped shared in full. The mapping survives the file's truncation (see `isLost`).
///
/// The descriptor is closed right after mapping. This drops no lock, because the process holds no POSIX lock on the file.
package final class MappedFile: @unchecked Sendable {
    // @unchecked: the pointer is constant, and the memory behind it is accessed through atomics only (rule B4).
    package let base: UnsafeMutableRawPointer
    package let size: Int
    package let identity: FileIdentity
    package let isWritable: Bool
    /// The status of the file when it was mapped.
    let status: FileStatus
    private let guardIndex: Int32

    /// Maps `path` when it has exactly `size` bytes.
    ///
    /// - parameter database: a database that may be open in this process without being registered. Its files are not opened (rule G5).
    /// - throws: `SystemError`; of `fstat` with `EINVAL` when the size differs, with `isMissingFile` when it is not a regular file, with
    ///   `EMFILE` when too many files are mapped. `LockedFileError` when it is a file that SQLite locks.
    package init(path: String, size: Int, writable: Bool, notOf database: String) throws {
        let mode = writable ? O_RDWR : O_RDONLY
        let (descriptor, status) = try System.openFile(
            at: FilePlace(path),
            mode,
            followingLinks: false,
            notOf: database,
            .locked
        )
        defer { close(descriptor) }
        guard Int(status.st_size) == size else { throw SystemError(call: .fstat, errno: EINVAL, path: path) }
        let protection = writable ? PROT_READ | PROT_WRITE : PROT_READ
        let address = try System.perform(.mmap, path) {
            Int(bitPattern: mmap(nil, size, protection, MAP_SHARED, descriptor, 0))
        }
        guard let base = UnsafeMutableRawPointer(bitPattern: address) else {
            throw SystemError(call: .mmap, errno: EFAULT, path: path)
        }
        let guardIndex = rt_guard_add(base, size)
        guard guardIndex >= 0 else {
            munmap(base, size)
            throw SystemError(call: .mmap, errno: EMFILE, path: path)
        }
        self.base = base
        self.size = size
        self.identity = FileIdentity(status)
        self.isWritable = writable
        self.status = status
        self.guardIndex = guardIndex
    }

    deinit {
        rt_guard_remove(guardIndex)
        _ = try? System.perform(.munmap) { munmap(base, size) }
    }

    /// Whether a page of the file was truncated while it was mapped. The mapping has been replaced by zeros then.
    package var isLost: Bool { rt_guard_is_lost(guardIndex) != 0 }
}
