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

    package var description: String {
        let reason = String(cString: strerror(errno))
        guard let path else { return "\(call.rawValue): \(reason) (errno \(errno))" }
        return "\(call.rawValue) \(path): \(reason) (errno \(errno))"
    }
}
