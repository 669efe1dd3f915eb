#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Advice on what to do about a system error.
package enum SystemErrorAdvice {
    /// The line `PATH: CALL: REASON (errno N). NEXT.` for a `SystemError`; nil for any other error.
    package static func line(_ error: any Error) -> String? {
        guard let error = error as? SystemError else { return nil }
        return (error.path.map { "\($0): " } ?? "") + "\(error.reason). \(next(error))."
    }

    /// The advice: a sentence without its full stop.
    package static func next(_ error: SystemError) -> String {
        switch (error.call, error.errno) {
        case (.inotify, EMFILE):
            """
            This user has no inotify instance left: end processes that watch files, or raise fs.inotify.max_user_instances (sysctl). Or too many \
            files are open in this process (ulimit -n)
            """
        case (.inotify, ENOSPC):
            "This user has no inotify watch left: end processes that watch files, or raise fs.inotify.max_user_watches (sysctl)"
        default: next(error.errno)
        }
    }

    /// The advice: a sentence without its full stop.
    package static func next(_ errno: Int32) -> String {
        switch errno {
        case ENOSPC, EDQUOT: "Make room there, and do it again"
        case EACCES, EPERM: "Run it as a user who may do that, or change the permissions of the file and its folders"
        case EROFS: "The file system is mounted read-only: mount it for writing, or use another place"
        case ENOENT, ENOTDIR: "Look at the path: a part of it is not there, or no folder"
        case ENAMETOOLONG, ELOOP: "Look at the path: it is too long, or its links go round in circles"
        case EMFILE, ENFILE: "Too many files are open: end what is not needed, or raise the limit (ulimit -n)"
        case EIO: "The disk may be failing: look at the system's log, and keep a backup ready"
        default: "Look at the file and what it lies on, and do it again; errno(3) says what the number means"
        }
    }
}
