#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Locks of open file descriptions (fcntl(2), F_OFD_SETLK). The kernel releases them when the last descriptor is closed, also at death,
// and shows them in every namespace. They are used on Linux only, because iOS ends a process that is frozen with a lock (rule G4).
extension System {
    /// Acquires the exclusive lock of one byte, which may lie beyond the end of the file.
    ///
    /// - returns: false when another open file description holds it.
    static func lock(byte: Int, of descriptor: Int32, _ path: String) throws -> Bool {
        #if os(Linux)
            var request = range(of: byte, F_WRLCK)
            do {
                try perform(.fcntl, path) { fcntl(descriptor, setDescriptionLock, &request) }
                return true
            } catch let error as SystemError where error.errno == EAGAIN || error.errno == EACCES {
                return false
            }
        #else
            throw SystemError(call: .fcntl, errno: ENOTSUP, path: path)
        #endif
    }

    /// Releases the lock of one byte. This cannot fail for a lock that is held.
    static func unlock(byte: Int, of descriptor: Int32) {
        #if os(Linux)
            var request = range(of: byte, F_UNLCK)
            _ = fcntl(descriptor, setDescriptionLock, &request)
        #endif
    }

    /// Whether another open file description holds the exclusive lock of a byte. A read-only descriptor suffices to ask, and to hold a
    /// shared lock, which counts for nothing here.
    static func isLocked(byte: Int, of descriptor: Int32, _ path: String) throws -> Bool {
        #if os(Linux)
            var request = range(of: byte, F_WRLCK)
            try perform(.fcntl, path) { fcntl(descriptor, getDescriptionLock, &request) }
            return Int32(request.l_type) == Int32(F_WRLCK)
        #else
            throw SystemError(call: .fcntl, errno: ENOTSUP, path: path)
        #endif
    }

    #if os(Linux)
        // F_OFD_GETLK and F_OFD_SETLK of <fcntl.h>, which Swift's Glibc module leaves out.
        private static let getDescriptionLock: Int32 = 36
        private static let setDescriptionLock: Int32 = 37

        private static func range(of byte: Int, _ kind: Int32) -> flock {
            var request = flock()
            request.l_type = Int16(kind)
            request.l_whence = Int16(SEEK_SET)
            request.l_start = byte
            request.l_len = 1
            return request
        }
    #endif
}
