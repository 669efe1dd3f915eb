import Foundation
import RoundtableKernel

/// An error of reading or writing a snapshot file. After a failed write, the file holds what it held before, except with
/// ``notDurable(path:errno:)``.
public enum SnapshotFileError: Error, Equatable, Sendable {
    /// The encoded value has more bytes than ``SnapshotFileOptions/maximumSize`` allows. Nothing was written.
    case tooLarge(path: String, byteCount: Int, limit: Int)

    /// There is no space left, or the user's quota is used up. The old value is intact.
    case diskFull(path: String)

    /// This process may not read the file, or not write into its folder.
    case noPermission(path: String, to: Access, reason: String)

    /// What a process may not do.
    public enum Access: Sendable {
        case read, write
    }

    /// The file system is read-only.
    case readOnlyFileSystem(path: String)

    /// There is no folder to write the file into. Snapshot files do not create folders.
    case folderMissing(path: String)

    /// The path names something other than a file.
    case notAFile(path: String, reason: String)

    /// The path names a file that was never a snapshot file, and is not empty. It was not replaced.
    case foreignFile(path: String)

    /// The path names a file of a database that is open in this process, possibly through a link. The file was neither read nor written,
    /// because closing it would release SQLite's locks.
    case databaseFile(path: String, database: String)

    /// The URL does not name a file.
    case notAFileURL(URL)

    /// The device was not unlocked since it was started, or is locked now, and the file's protection class keeps it closed.
    case protected(path: String)

    /// The value cannot be encoded. Nothing was written.
    case encodingFailed(path: String, reason: String)

    /// The file holds the new value, and all processes see it, but its folder could not be synced. A power cut may bring the old value
    /// back.
    case notDurable(path: String, errno: Int32)

    /// Other writers have replaced the file a hundred times in a row, each time between a look at it and the write. Only publishers throw
    /// this.
    case contended(path: String)

    /// The publisher was cancelled, or its database was closed, so nothing is published any more. Only
    /// `SnapshotPublisher.publishNow()` throws this.
    case publishingEnded(path: String)

    /// An error that Apple's frameworks report for a coordinated access, or an error of another kind.
    case other(path: String, reason: String)

    /// Any other error of the system: a system call, by the name of its manual page, and its `errno`.
    case system(path: String, call: String, errno: Int32)
}

extension SnapshotFileError: CustomStringConvertible, LocalizedError {
    public var description: String { "\(subject): \(problem)" }

    public var errorDescription: String? { description }

    private var subject: String {
        switch self {
        case .tooLarge(let path, _, _), .diskFull(let path), .noPermission(let path, _, _),
            .readOnlyFileSystem(let path),
            .folderMissing(let path), .notAFile(let path, _), .foreignFile(let path), .databaseFile(let path, _),
            .protected(let path), .encodingFailed(let path, _), .notDurable(let path, _), .contended(let path),
            .publishingEnded(let path), .other(let path, _), .system(let path, _, _):
            path
        case .notAFileURL(let url): "\(url)"
        }
    }

    /// What is wrong and what to do next. The text does not name the file.
    var problem: String {
        switch self {
        case .tooLarge(_, let count, let limit):
            """
            the encoded value has \(count) bytes, and \(limit) are allowed. Nothing was written. Publish less (a summary, not the \
            data), or raise the option maximumSize in all processes that write or read the file.
            """
        case .diskFull:
            "the disk is full. The file still holds the value that was written last. Free some space, and write again."
        case .noPermission(_, .read, let reason):
            """
            this process may not read it (\(reason)). On Apple's systems, both processes must be in the App Group whose container it is in; \
            elsewhere, let the user of this process read the file, and enter the folders on the way to it.
            """
        case .noPermission(_, .write, let reason):
            """
            this process may not write into its folder (\(reason)). The file was left as it is. On Apple's systems, both processes must be in the \
            App Group whose container it is in; elsewhere, let the user of this process write into the folder.
            """
        case .readOnlyFileSystem:
            "it is on a file system that can only be read. The file was left as it is. Choose a path on another one."
        case .folderMissing:
            "its folder does not exist. Create it first."
        case .notAFile(_, let reason):
            "\(reason). Choose another path, or remove what is there."
        case .foreignFile:
            "holds something that is no snapshot, and was left as it is. Choose another path, or remove the file if nobody needs it."
        case .databaseFile(let path, let database):
            """
            is \(path == database ? "a database" : "a file of the database \(database)"), which is open in this process. It was left as it is. \
            Give the snapshot a path of its own.
            """
        case .notAFileURL:
            "not a file URL. A snapshot is a file: give its URL."
        case .protected:
            """
            the system keeps it closed until the device is unlocked. Try again then; or choose the protection class \
            completeUntilFirstUserAuthentication, if processes use it that run while the device is locked.
            """
        case .encodingFailed(_, let reason):
            "the value cannot be encoded: \(reason). The file was left as it is. Mend the value, or give the file an encoding that can."
        case .notDurable(_, let errno):
            """
            was written, and its folder could not be synced: \(Self.text(errno)). A power cut may bring the old value back. Write it again.
            """
        case .contended:
            "others write it all the time. Let one process publish to it, or at longer intervals."
        case .publishingEnded:
            "nothing is published to it any more: the publisher was cancelled, or its database closed. Publish anew, with publish(to:)."
        case .other(_, let reason):
            "\(reason). The file was left as it is. Try again; if it stays so, choose another path."
        case .system(_, let call, let errno):
            "\(call): \(Self.text(errno)). The file was left as it is. \(Self.advice(call, errno))"
        }
    }

    private static func text(_ errno: Int32) -> String { "\(String(cString: strerror(errno))) (errno \(errno))" }

    private static func advice(_ call: String, _ errno: Int32) -> String {
        switch errno {
        case EMFILE, ENFILE: "Close files that nobody needs, or raise the limit on open ones, and try again."
        case ENAMETOOLONG: "Choose a shorter path."
        case ELOOP: "Symbolic links on the way lead in a circle: choose another path, or mend them."
        case EIO: "The disk may be failing: try again, and look at the system's log."
        default: "Try again; if it stays so, choose another path. What it means is in the manual page \(call)(2)."
        }
    }
}

extension SnapshotFileError {
    /// - parameter hasProtection: whether the system has protection classes. If so, EPERM can mean that one of them keeps the file closed.
    init(_ error: SystemError, path: String, hasProtection: Bool = Self.systemHasProtection) {
        switch (error.errno, error.call) {
        case (ENOSPC, _), (EDQUOT, _): self = .diskFull(path: path)
        case (EROFS, _): self = .readOnlyFileSystem(path: path)
        case (EPERM, .open) where hasProtection, (EPERM, .read) where hasProtection,
            (EPERM, .write) where hasProtection,
            (EPERM, .fsync) where hasProtection:
            self = .protected(path: path)
        case (EACCES, _), (EPERM, _):
            let reason = "\(error.call.rawValue): \(Self.text(error.errno))"
            self = .noPermission(path: path, to: Self.access(error), reason: reason)
        case (ENOENT, _), (ENOTDIR, _): self = .folderMissing(path: path)
        case (EISDIR, _): self = .notAFile(path: path, reason: "it is a folder")
        // A pipe or a device causes these errors: see `System.contents(ofFileAt:limit:)`.
        case (EINVAL, .read), (ENXIO, .open): self = .notAFile(path: path, reason: "it is not an ordinary file")
        default: self = .system(path: path, call: error.call.rawValue, errno: error.errno)
        }
    }

    private static func access(_ error: SystemError) -> Access {
        switch error.call {
        case .write, .fsync, .rename, .link, .unlink, .chmod, .chown: .write
        // A writer opens an unfinished file, not the file that it replaces.
        default: error.path.map(UnfinishedFile.isName) == true ? .write : .read
        }
    }

    static var systemHasProtection: Bool {
        #if canImport(Darwin)
            true
        #else
            false
        #endif
    }
}
