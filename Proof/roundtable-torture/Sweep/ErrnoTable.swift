#if os(Linux)
    import Glibc
    import RoundtableTestSupport

    /// The errors that each call may report, by its manual page.
    ///
    /// Left out is what would not be a failure but a lie about the file system: ENOENT for a file that exists, ESRCH for a process that runs.
    /// So is what only a mistake of the program causes: EBADF, EFAULT, EINVAL. `munmap`, `unlock` and `futex-wake` cannot fail in another way.
    enum ErrnoTable {
        static let names: [Int32: String] = [
            EACCES: "EACCES", EAGAIN: "EAGAIN", EBUSY: "EBUSY", EDQUOT: "EDQUOT", EEXIST: "EEXIST", EFBIG: "EFBIG",
            EINTR: "EINTR", EIO: "EIO", ELOOP: "ELOOP", EMFILE: "EMFILE", EMLINK: "EMLINK", ENFILE: "ENFILE",
            ENODEV: "ENODEV", ENOLCK: "ENOLCK", ENOMEM: "ENOMEM", ENOSPC: "ENOSPC", ENOSYS: "ENOSYS", EPERM: "EPERM",
            EROFS: "EROFS", ETIMEDOUT: "ETIMEDOUT",
        ]

        static func errnos(of call: String, at door: SweepDoor) -> [Int32] {
            let all = table[call] ?? []
            // `System.perform` retries what a signal interrupts, so that the kernel layer never sees EINTR.
            return door == .calls ? all : all.filter { $0 != EINTR }
        }

        private static let table: [String: [Int32]] = [
            "open": [EACCES, EDQUOT, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS],
            "close": [EDQUOT, EINTR, EIO, ENOSPC],
            "read": [EINTR, EIO],
            "pread": [EINTR, EIO],
            "write": [EDQUOT, EFBIG, EINTR, EIO, ENOSPC],
            "pwrite": [EDQUOT, EFBIG, EINTR, EIO, ENOSPC],
            "ftruncate": [EFBIG, EINTR, EIO, ENOSPC],
            "fsync": [EDQUOT, EINTR, EIO, ENOSPC],
            "fdatasync": [EDQUOT, EINTR, EIO, ENOSPC],
            "stat": [EACCES, EIO, ELOOP, ENOMEM],
            "fstat": [EIO, ENOMEM],
            "access": [EACCES, EIO, ENOMEM],
            "readlink": [EACCES, EIO, ENOMEM],
            "realpath": [EACCES, EIO, ENOMEM],
            "chmod": [EIO, EPERM, EROFS],
            "chown": [EIO, EPERM, EROFS],
            "statfs": [EACCES, EINTR, EIO, ENOSYS],
            "unlink": [EACCES, EBUSY, EIO, EPERM, EROFS],
            "rename": [EACCES, EBUSY, EDQUOT, EIO, ENOSPC, EROFS],
            "link": [EACCES, EDQUOT, EIO, EMLINK, ENOSPC, EPERM, EROFS],
            "mkdir": [EACCES, EDQUOT, EIO, EMLINK, ENOSPC, EROFS],
            "opendir": [EACCES, EMFILE, ENFILE, ENOMEM],
            "readdir": [EIO],
            "lock": [EACCES, EAGAIN, EINTR, EIO, ENOLCK],
            "fcntl": [EACCES, EAGAIN, ENOLCK],
            "mmap": [EACCES, EAGAIN, ENODEV, ENOMEM],
            "inotify_init": [EMFILE, ENFILE, ENOMEM],
            "inotify_add_watch": [EACCES, ENOMEM, ENOSPC],
            "inotify": [EMFILE, ENFILE, ENOMEM, ENOSPC],
            "futex-wait": [EAGAIN, EINTR, ETIMEDOUT],
            "pipe": [EMFILE, ENFILE],
            "poll": [ENOMEM],
            "kill": [EPERM],
            "read-process": [EACCES, EIO],
        ]
    }
#endif
