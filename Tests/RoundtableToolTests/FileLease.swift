import Foundation

#if canImport(Glibc)
    import Glibc
#endif

/// Lets another process wait in open(2) for a file until the lease ends (fcntl(2), `F_SETLEASE`). The system ends it after 45 s.
final class FileLease {
    private let descriptor: Int32

    /// Whether this system, and its folder of temporary files, have leases.
    static let isPossible: Bool = {
        do {
            let folder = try Folder()
            try Data().write(to: folder.url.appendingPathComponent("file"))
            _ = try FileLease(of: folder.path("file"))
            return true
        } catch {
            return false
        }
    }()

    /// - parameter path: a file that no process has open.
    /// - throws: `POSIXError`.
    init(of path: String) throws {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        #if os(Linux)
            // F_SETSIG and F_SETLEASE, which Swift does not see.
            let (setSignal, setLease): (Int32, Int32) = (10, 1024)
            // The system says with a signal that a process waits. SIGURG is ignored by default, unlike SIGIO.
            guard fcntl(descriptor, setSignal, SIGURG) == 0, fcntl(descriptor, setLease, F_WRLCK) == 0 else {
                throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EINVAL)
            }
        #else
            throw POSIXError(.ENOTSUP)
        #endif
    }

    deinit { close(descriptor) }
}
