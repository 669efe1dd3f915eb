import Foundation
import RoundtableKernel

/// An error of reading or writing a snapshot file. After a failed write, the file holds what it held before, except with
/// ``notDurable(path:errno:)``.
public enum SnapshotFileError: Error, Equatable, Sendable {
    /// The encoded value has more bytes than ``SnapshotFileOptions/maximumSize`` allows. Nothing was written.
    case tooLarge(path: String, byteCount: Int, limit: Int)

    /// The file, or its folder, has a problem that any file can have. The old value is intact.
    case file(path: String, FileProblem)

    /// The path names something other than a file.
    case notAFile(path: String, reason: String)

    /// The path names a file that was never a snapshot file, and is not empty. It was not replaced.
    case foreignFile(path: String)

    /// The path names a file of a database that is open in this process, possibly through a link. The file was neither read nor written,
    /// because closing it would release SQLite's locks.
    case databaseFile(path: String, database: String)

    /// The URL does not name a file.
    case notAFileURL(URL)

    /// The value cannot be encoded. Nothing was written. Often, it contains NaN or infinity, which JSON does not have: use
    /// ``SnapshotEncoding/propertyList``, or an encoding of your own.
    case encodingFailed(path: String, reason: String)

    /// The file holds the new value, and all processes see it, but its folder could not be synced. A power cut may bring the old value
    /// back.
    case notDurable(path: String, errno: Int32)

    /// Other writers have replaced the file a hundred times in a row, each time between a look at it and the write. Only publishers throw
    /// this.
    case contended(path: String)

    /// The publisher was cancelled, or its database was closed, so nothing is published any more. Only
    /// `SnapshotPublisher.publish()` throws this.
    case publishingEnded(path: String)

    /// An error that Apple's frameworks report for a coordinated access, or an error of another kind.
    case other(path: String, reason: String)
}

extension SnapshotFileError: CustomStringConvertible, LocalizedError {
    public var description: String { "\(subject): \(problem)" }

    public var errorDescription: String? {
        switch self {
        case .file, .other, .contended, .notDurable: "The file cannot be read or written."
        case .tooLarge: "The value is too large for its file."
        case .notAFile, .foreignFile, .databaseFile, .notAFileURL: "The file is of another kind."
        case .encodingFailed, .publishingEnded: "The value cannot be stored."
        }
    }

    public var failureReason: String? {
        guard case .file(_, let problem) = self else { return nil }
        return problem.reasonForPeople
    }

    public var recoverySuggestion: String? {
        guard case .file(_, let problem) = self else { return nil }
        return problem.suggestionForPeople
    }

    private var subject: String {
        switch self {
        case .tooLarge(let path, _, _), .file(let path, _), .notAFile(let path, _), .foreignFile(let path),
            .databaseFile(let path, _), .encodingFailed(let path, _), .notDurable(let path, _), .contended(let path),
            .publishingEnded(let path), .other(let path, _):
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
        case .file(_, let problem):
            problem.description(consequence: Self.consequence(problem))
        case .notAFile(_, let reason):
            "\(reason). Choose another path, or remove what is there."
        case .foreignFile:
            "is not a snapshot file, and was left as it is. Choose another path, or remove the file if it is not needed."
        case .databaseFile(let path, let database):
            """
            is \(path == database ? "a database" : "a file of the database \(database)"), which is open in this process. It was left as it is. \
            Give the snapshot a path of its own.
            """
        case .notAFileURL:
            "not a file URL. A snapshot is a file: give its URL."
        case .encodingFailed(_, let reason):
            "the value cannot be encoded: \(reason). The file was left as it is. Correct the value, or give the file an encoding that can express it."
        case .notDurable(_, let errno):
            """
            was written, and its folder could not be synced: \(SystemError.text(errno)). A power cut may bring the old value back. Write it again.
            """
        case .contended:
            "other processes write it continually. Let one process publish to it, or publish at longer intervals."
        case .publishingEnded:
            "nothing is published to it any more: the publisher was cancelled, or its database closed. Publish again, with publish(to:)."
        case .other(_, let reason):
            "\(reason). The file was left as it is. Try again; if it stays so, choose another path."
        }
    }

    private static func consequence(_ problem: FileProblem) -> String? {
        switch problem {
        case .diskFull: "The file still holds the value that was written last."
        case .noPermission(.read, _): nil
        case .noPermission(.write, _):
            "The file was left as it is: a writer needs the permission to write into its folder."
        case .folderMissing: "Snapshot files do not create folders."
        case .readOnlyFileSystem, .protected, .system: "The file was left as it is."
        }
    }
}

extension SnapshotFileError {
    /// Translates the error of a system call for a snapshot file.
    ///
    /// - parameter hasProtection: whether the system has protection classes: see ``FileProblem``.
    init(_ error: SystemError, path: String, hasProtection: Bool = FileProblem.systemHasProtection) {
        switch (error.errno, error.call) {
        case (EISDIR, _): self = .notAFile(path: path, reason: "it is a folder")
        // A pipe or a device causes these errors: see `System.contents(ofFileAt:limit:)`.
        case (EINVAL, .read), (ENXIO, .open): self = .notAFile(path: path, reason: "it is not an ordinary file")
        default: self = .file(path: path, FileProblem(error, hasProtection: hasProtection))
        }
    }
}
