#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A system call that failed: which, on what, and why.
package struct SystemError: Error, Equatable, CustomStringConvertible {
    package let call: SystemCall
    package let errno: Int32
    package let path: String?

    package init(call: SystemCall, errno: Int32, path: String? = nil) {
        self.call = call
        self.errno = errno
        self.path = path
    }

    /// Whether what was to be read, replaced or removed is no file but a folder, a pipe or the like.
    package var isNoFile: Bool { errno == EISDIR || errno == EINVAL || (call == .unlink && errno == EPERM) }

    package var description: String {
        guard let path else { return reason }
        return "\(call.rawValue) \(path): \(text) (errno \(errno))"
    }

    /// For those who tell the path themselves.
    package var reason: String { "\(call.rawValue): \(text) (errno \(errno))" }

    private var text: String { String(cString: strerror(errno)) }
}

extension SystemError {
    /// Whether a folder on the way to the file is not there.
    package var isFolderGone: Bool { errno == ENOENT || errno == ENOTDIR }

    package var isAlreadyThere: Bool { errno == EEXIST }
}
