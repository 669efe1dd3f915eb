import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A problem that any file or folder can have. ``SnapshotFileError/file(path:_:)`` and ``OutboxError/file(path:_:)`` say which file has
/// it, and what that means for the snapshot or the commands.
///
/// Later versions may add cases: switch over those that the program handles, with a `default`.
public enum FileProblem: Sendable, Equatable {
    /// The disk, or the user's quota on it, is full.
    case diskFull

    /// The file system is read-only. Linux also makes it so after a disk error: see `dmesg`.
    case readOnlyFileSystem

    /// This process lacks a permission. The reason names the system call that failed. Often, another user has created the file, with a
    /// umask that shuts this one out. Writers replace files, so they need the permission to write the folder.
    case noPermission(to: Access, reason: String)

    /// The file is of a protection class that keeps it closed, such as `complete` or `completeUnlessOpen`: the device is locked, or was not
    /// unlocked since it was started. (Apple's systems.)
    case protected

    /// A folder does not exist, or is no folder. Either the app has not created it yet, or the path of its container was stored, and has
    /// changed with an update.
    case folderMissing

    /// A system call, by the name of its manual page, failed with any other `errno`.
    case system(call: String, errno: Int32)

    /// What a process needs a permission for.
    public enum Access: Sendable {
        /// To read the file, or to list the folder.
        case read
        /// To write the file, or to create and remove files in its folder.
        case write
    }
}

extension FileProblem: CustomStringConvertible {
    /// What is wrong, and what to do next. The text does not name the file.
    public var description: String { description(consequence: nil) }

    /// The description, with a consequence after what is wrong: one or more sentences.
    package func description(consequence: String?) -> String {
        ["\(fact).", consequence, advice].compactMap(\.self).joined(separator: " ")
    }

    /// What is wrong: a sentence without its full stop.
    private var fact: String {
        switch self {
        case .diskFull: "the disk is full, or the user's quota on it is used up"
        case .readOnlyFileSystem: "the file system is read-only"
        case .noPermission(.read, let reason): "this process has no permission to read it (\(reason))"
        case .noPermission(.write, let reason): "this process has no permission to write there (\(reason))"
        case .protected: "the system keeps it closed until the device is unlocked"
        case .folderMissing: "the folder does not exist"
        case .system(let call, let errno): "\(call): \(SystemError.text(errno))"
        }
    }

    /// What to do next.
    private var advice: String {
        switch self {
        case .diskFull:
            "Free space on that disk, and try again."
        case .readOnlyFileSystem:
            "Choose a path on another file system, or mount this one for writing."
        case .noPermission(let access, _):
            """
            On Apple's systems, all processes that use it must be in the App Group whose container it is in. On other systems, let the user of \
            this process \(access == .read ? "read it" : "write there"), and enter the folders on the way to it.
            """
        case .protected:
            """
            Try again then; or choose the protection class completeUntilFirstUserAuthentication, if processes use it that run while the device \
            is locked.
            """
        case .folderMissing:
            "Create the folder first."
        case .system(let call, let errno):
            Self.advice(call, errno)
        }
    }

    /// For the people who use a program, in which no path, call or setting is named.
    var reasonForPeople: String? {
        switch self {
        case .diskFull: "The disk is full."
        case .protected: "The device is locked."
        case .noPermission, .readOnlyFileSystem: "This program may not write there, or not read."
        case .folderMissing, .system: nil
        }
    }

    var suggestionForPeople: String? {
        switch self {
        case .diskFull: "Free space, and try again."
        case .protected: "Unlock the device, and try again."
        case .noPermission, .readOnlyFileSystem, .folderMissing, .system: nil
        }
    }

    private static func advice(_ call: String, _ errno: Int32) -> String {
        switch (errno, SystemCall(rawValue: call)) {
        case (EMFILE, .inotify), (ENOSPC, .inotify):
            "\(SystemErrorAdvice.next(SystemError(call: .inotify, errno: errno)))."
        case (EMFILE, _), (ENFILE, _):
            "Close files that are not needed, or raise the limit on open files, and try again."
        case (ENAMETOOLONG, _):
            "Choose a shorter path."
        case (ELOOP, _):
            "Symbolic links on the way lead in a circle: choose another path, or correct them."
        case (EIO, _):
            "Try again, and look at the system's log: the disk may be failing."
        default:
            """
            Try again; if the error persists, look at the disk and at what is at this path, or choose another path. The manual page of \(call) \
            says what the error means.
            """
        }
    }
}

extension FileProblem {
    /// Translates the error of a system call.
    ///
    /// - parameter hasProtection: whether the system has protection classes. If so, EPERM can mean that one of them keeps the file closed.
    package init(_ error: SystemError, hasProtection: Bool = Self.systemHasProtection) {
        switch (error.errno, error.call) {
        // For inotify, ENOSPC does not mean a full disk: the system has no watch left.
        case (ENOSPC, .inotify): self = .system(error)
        case (ENOSPC, _), (EDQUOT, _): self = .diskFull
        case (EROFS, _): self = .readOnlyFileSystem
        case (EPERM, .open) where hasProtection, (EPERM, .read) where hasProtection,
            (EPERM, .write) where hasProtection,
            (EPERM, .fsync) where hasProtection:
            self = .protected
        case (EACCES, _), (EPERM, _): self = .noPermission(to: Self.access(error), reason: error.reason)
        case (ENOENT, _), (ENOTDIR, _): self = .folderMissing
        default: self = .system(error)
        }
    }

    private static func system(_ error: SystemError) -> Self { .system(call: error.call.rawValue, errno: error.errno) }

    /// The access that failed for lack of a permission.
    private static func access(_ error: SystemError) -> Access {
        switch error.call {
        case .write, .fsync, .rename, .link, .unlink, .chmod, .chown, .mkdir: .write
        case .open: error.path.map(isToBeCreated) == true ? .write : .read
        default: error.path.map(UnfinishedFile.isName) == true ? .write : .read
        }
    }

    /// Whether `open` was to create the file. A file that cannot be looked up counts as existing, because its folder cannot be entered.
    private static func isToBeCreated(_ path: String) -> Bool {
        if UnfinishedFile.isName(path) { return true }
        do { return try System.status(ofFileAt: path) == nil } catch { return false }
    }

    package static var systemHasProtection: Bool {
        #if canImport(Darwin)
            true
        #else
            false
        #endif
    }
}
