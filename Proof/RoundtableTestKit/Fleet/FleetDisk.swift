import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension Fleet {
    /// Where a fleet has its database.
    public enum Disk: Sendable, Hashable {
        /// In the folder for temporary files.
        case ordinary
        /// In a file system in memory (tmpfs) of so many bytes, which can be full. Only the superuser of a Linux machine can make it; elsewhere
        /// the fleet is in an ordinary folder, and faults that fill the disk are reported as skipped.
        case limited(bytes: Int)
    }
}

/// A small file system that can be filled.
package final class LimitedDisk {
    private let folder: URL
    private var isMounted = true
    private var filler: String { folder.appendingPathComponent("filler").path }

    /// - returns: nil when this process may not mount a file system.
    package init?(at folder: URL, bytes: Int) {
        self.folder = folder
        #if os(Linux)
            guard mount("tmpfs", folder.path, "tmpfs", 0, "size=\(bytes)") == 0 else { return nil }
        #else
            return nil
        #endif
    }

    deinit { unmount() }

    /// Leaves no free block.
    package func fill() throws {
        let descriptor = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        try check(descriptor, "open \(filler)")
        defer { close(descriptor) }
        let block = [UInt8](repeating: 0, count: 1 << 16)
        for size in [block.count, 4096] {
            while write(descriptor, block, size) > 0 {}
        }
    }

    package func empty() { unlink(filler) }

    package func unmount() {
        guard isMounted else { return }
        isMounted = false
        #if os(Linux)
            umount2(folder.path, Int32(MNT_DETACH))
        #endif
    }
}
