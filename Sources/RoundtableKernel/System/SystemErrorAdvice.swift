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
        case ENOSPC, EDQUOT: "Free space there, and try again"
        case EACCES, EPERM: "Run it as a user who may do that, or change the permissions of the file and its folders"
        case EROFS: "The file system is mounted read-only: mount it for writing, or use another place"
        case ENOENT, ENOTDIR: "Check the path: a part of it does not exist, or is not a folder"
        case ENAMETOOLONG, ELOOP: "Check the path: it is too long, or its links form a circle"
        case EMFILE, ENFILE: "Too many files are open: end what is not needed, or raise the limit (ulimit -n)"
        case EIO: "The disk may be failing: check the system's log, and keep a backup ready"
        default: "Check the file and its file system, and try again; errno(3) says what the number means"
        }
    }
}
