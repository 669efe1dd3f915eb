#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A failed system call, with the path that it was made for and the errno.
package struct SystemError: Error, Equatable, CustomStringConvertible {
    package let call: SystemCall
    package let errno: Int32
    package let path: String?

    package init(call: SystemCall, errno: Int32, path: String? = nil) {
        self.call = call
        self.errno = errno
        self.path = path
    }

    /// Whether the call failed because the path is not a file, but a folder, a pipe or the like.
    package var isMissingFile: Bool { errno == EISDIR || errno == EINVAL || (call == .unlink && errno == EPERM) }

    package var description: String {
        guard let path else { return reason }
        return "\(call.rawValue) \(path): \(Self.text(errno))"
    }

    /// The description without the path.
    package var reason: String { "\(call.rawValue): \(Self.text(errno))" }

    /// The system's text for an errno, and its number.
    package static func text(_ errno: Int32) -> String { "\(String(cString: strerror(errno))) (errno \(errno))" }
}

extension SystemError {
    /// Whether the file, or a folder on the path to it, does not exist.
    package var isFolderGone: Bool { errno == ENOENT || errno == ENOTDIR }

    package var isAlreadyThere: Bool { errno == EEXIST }
}
