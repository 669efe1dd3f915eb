import Foundation
import RoundtableKernel
import Synchronization

/// The bytes and the header of a snapshot file, without the type of its value (rules V1–V5). It takes no file lock.
package final class SnapshotStore: Sendable {
    package let url: URL
    package let path: String
    package let folder: String
    private let version: UInt64
    private let writer: String
    private let options: SnapshotFileOptions
    private let token = UInt64.random(in: 1 ... .max)

    /// The state of this store's writes. They run one after the other, so that each sees the result of the one before.
    private struct Writing {
        /// The sequence of the last file that this store wrote, or 0. The store never uses a sequence twice with its token (rule V4).
        var sequence: UInt64 = 0
        /// When the unfinished files of dead writers were last looked for.
        var sweptAt: Nanoseconds?
        /// The last rename may not be on the disk.
        var isFolderUnsynced = false
    }
    private let writing = Mutex(Writing())
    /// How often this store has settled what the file holds, by writing it or by finding it there. Incremented while `writing` is locked.
    private let settlements = Atomic<UInt64>(0)

    private var limit: Int { max(1, options.maximumSize) }

    package init(_ url: URL, version: UInt64, writer: String, options: SnapshotFileOptions) {
        self.url = url
        path = url.isFileURL ? url.standardizedFileURL.path : ""
        folder = url.standardizedFileURL.deletingLastPathComponent().path
        self.version = version
        self.writer = writer
        self.options = options
    }

    /// The beginning of the names of unfinished files. A checksum replaces a file name that leaves no room for the writer's identity.
    private var unfinishedPrefix: String {
        let name = (path as NSString).lastPathComponent
        return name.utf8.count <= Self.longestName ? ".\(name)" : ".\(String(Checksum.fnv1a(name.utf8), radix: 16))"
    }

    private static let longestName = 100

    /// - throws: ``SnapshotFileError``, whatever `body` throws.
    private func translating<T>(_ body: () throws -> T) throws(SnapshotFileError) -> T {
        do {
            if !url.isFileURL { throw SnapshotFileError.notAFileURL(url) }
            return try body()
        } catch let error as SnapshotFileError {
            throw error
        } catch let error as SystemError {
            throw SnapshotFileError(error, path: path)
        } catch let error as LockedFileError {
            throw .databaseFile(path: path, database: error.database)
        } catch {
            throw .other(path: path, reason: "\(error)")
        }
    }

    // MARK: The file and its folder

    private func openFolder() throws -> OpenFolder {
        guard !options.followsLinks else { return try OpenFolder(at: folder, followingLinks: true) }
        let (above, name) = System.place(of: folder)
        return try OpenFolder(at: above).folder(name)
    }

    /// - returns: nil when there is no such file.
    private func contents(of path: String, limit: Int) throws -> [UInt8]? {
        if options.followsLinks { return try System.contents(ofFileAt: path, limit: limit) }
        return try OpenFolder.ifThere(openFolder)?.contents(ofFile: System.place(of: path).name, limit: limit)
    }

    /// - returns: nil when there is no such file.
    private func status(of path: String) throws -> FileStatus? {
        if options.followsLinks { return try System.status(ofFileAt: path) }
        return try OpenFolder.ifThere(openFolder)?.status(ofFile: System.place(of: path).name)
    }

    // MARK: Reading

    /// The bytes of the file as it is; nil when there is no file.
    package func bytes() throws -> [UInt8]? { try contents(of: path, limit: limit) }

    /// Reads the file (rule V5).
    package func contents() throws(SnapshotFileError) -> SnapshotContents {
        try translating {
            // The limit may be `Int.max`, so the sum may overflow.
            let most = limit.addingReportingOverflow(SnapshotHeader.size)
            let bytes = try coordinated(.reading) {
                try contents(of: $0, limit: most.overflow ? .max - 1 : most.partialValue)
            }
            return bytes.map { SnapshotContents($0, limit: limit) } ?? .absent
        }
    }

    /// Which value the file holds now (rule V6).
    package func mark() -> SnapshotMark {
        do {
            return try translating { try currentMark() }
        } catch {
            return .unreadable(error)
        }
    }

    /// Returns a look for a writer that is to write only if no other has written since.
    package func look() -> SnapshotLook {
        // A settlement between the two reads is part of the mark, or counts as later than this look.
        let settlements = settlements.load(ordering: .acquiring)
        return SnapshotLook(mark: mark(), settlements: settlements)
    }

    private func currentMark() throws -> SnapshotMark {
        guard let bytes = try contents(of: path, limit: SnapshotHeader.size) else { return .absent }
        if let header = SnapshotHeader(bytes) { return .whole(header) }
        guard let status = try status(of: path) else { return .absent }
        return .other(FileIdentity(status), size: Int64(status.st_size), modified: status.modificationTime)
    }

    /// The size of the file in bytes; nil if there is no file, or if it cannot be inspected.
    var size: Int64? { (try? System.status(ofFileAt: path)).map { Int64($0.st_size) } }

    /// Whether the path is a symbolic link; false if that is not known.
    var isLink: Bool { (try? System.statusOfLink(at: path))?.isSymbolicLink ?? false }

    /// Whether a file with this header may hold these bytes, as this process would write them.
    package func describes(_ header: SnapshotHeader, _ bytes: [UInt8], _ encoding: SnapshotHeader.Encoding) -> Bool {
        header.format == SnapshotHeader.format && header.version == version && header.encoding == encoding
            && header.length == UInt64(bytes.count) && header.checksum == Checksum.fnv1a(bytes)
    }

    // MARK: Writing

    /// Replaces what the file holds with a value (rule V2).
    ///
    /// - parameter expected: the look that must still be current; nil to replace anything.
    /// - returns: nil when the look is not current any more. The file is then unchanged.
    package func write(
        _ value: [UInt8],
        _ encoding: SnapshotHeader.Encoding,
        replacing expected: SnapshotLook? = nil
    ) throws(SnapshotFileError) -> SnapshotHeader? {
        if value.count > limit { throw .tooLarge(path: path, byteCount: value.count, limit: limit) }
        return try replacing { path, writing in
            let found = mark()
            if let expected, !isCurrent(expected, found) { return nil }
            let header = SnapshotHeader(
                version: version,
                sequence: nextSequence(after: found, writing),
                token: token,
                value: value,
                encoding: encoding,
                writer: writer
            )
            guard try install(header.bytes + value, at: path, replacing: expected, &writing) else { return nil }
            writing.sequence = header.sequence
            try syncFolder(&writing)
            return header
        }
    }

    /// Replaces the file by another snapshot file, as it is: header and value.
    package func replace(with bytes: [UInt8]) throws(SnapshotFileError) {
        try replacing { path, writing in
            _ = try install(bytes, at: path, replacing: nil, &writing)
            try syncFolder(&writing)
        }
    }

    /// Runs `body`, which replaces the file at the path that it is given, unless that file must not be replaced.
    private func replacing<T>(_ body: (String, inout Writing) throws -> T) throws(SnapshotFileError) -> T {
        try translating {
            try coordinated(.writing) { path in
                try writing.withLock { writing in
                    try check(path)
                    removeAbandoned(&writing)
                    return try body(path, &writing)
                }
            }
        }
    }

    /// Throws if the file must not be replaced.
    private func check(_ path: String) throws {
        guard let status = try status(of: path) else { return }
        // Where links are not followed, the rename replaces the link itself.
        if status.isSymbolicLink { return }
        if !status.isRegularFile {
            throw SnapshotFileError.notAFile(
                path: path,
                reason: status.isFolder ? "it is a folder" : "it is not an ordinary file"
            )
        }
        try checkIsSnapshot(FileIdentity(status), path)
    }

    /// Writes the bytes under an unfinished name, and renames that file (rule V2). The folder is opened once: the superuser gives the file to the
    /// owner of the one that it replaces, and that must be the one in the same folder.
    ///
    /// - returns: false when `expected` is not current any more.
    private func install(
        _ bytes: [UInt8],
        at path: String,
        replacing expected: SnapshotLook?,
        _ writing: inout Writing
    ) throws -> Bool {
        let folder = try openFolder()
        let name = System.place(of: path).name
        let unfinished = UnfinishedFile.name(unfinishedPrefix)
        let replaced = try options.followsLinks ? folder.status(ofTarget: name) : folder.status(ofFile: name)
        let access = replaced.flatMap { $0.isSymbolicLink ? nil : FileAccess($0) }
        try folder.makeFile(unfinished, bytes, access: access, isDurable: options.durability == .machine)
        do {
            try protect(folder.file(unfinished), as: path)
            // The check is repeated, because syncing takes a while. The rename follows immediately.
            if let expected, !isCurrent(expected, mark()) {
                folder.removeIfPossible(unfinished)
                return false
            }
            try folder.renameFile(unfinished, to: name, in: folder)
        } catch {
            folder.removeIfPossible(unfinished)
            throw error
        }
        settlements.add(1, ordering: .releasing)
        writing.isFolderUnsynced = options.durability == .machine
        return true
    }

    /// Throws if the file must not be replaced (rule V10).
    private func checkIsSnapshot(_ file: FileIdentity, _ path: String) throws {
        if case .part(let database) = try LockedFiles.look(at: path, foundAs: file) {
            throw SnapshotFileError.databaseFile(path: path, database: database)
        }
        // `contents` repeats the check, because the file may have been replaced in between.
        let beginning = try contents(of: path, limit: SnapshotHeader.size - 1) ?? []
        guard SnapshotHeader.mayBegin(beginning) else { throw SnapshotFileError.foreignFile(path: path) }
    }

    /// Settles that the file keeps what it held at that look, after a write in flight has finished. Other writers of this store then
    /// do not write values that they began to fetch before. Also syncs the folder, if a write has failed with
    /// ``SnapshotFileError/notDurable(path:errno:)``.
    ///
    /// - returns: false when the look is not current any more.
    package func keep(_ look: SnapshotLook) throws(SnapshotFileError) -> Bool {
        try translating {
            try writing.withLock { writing in
                guard isCurrent(look, mark()) else { return false }
                try syncFolder(&writing)
                settlements.add(1, ordering: .releasing)
                return true
            }
        }
    }

    private func isCurrent(_ look: SnapshotLook, _ found: SnapshotMark) -> Bool {
        found == look.mark && settlements.load(ordering: .acquiring) == look.settlements
    }

    private func syncFolder(_ writing: inout Writing) throws {
        guard writing.isFolderUnsynced else { return }
        do {
            try openFolder().sync()
            writing.isFolderUnsynced = false
        } catch let error as SystemError {
            throw SnapshotFileError.notDurable(path: path, errno: error.errno)
        }
    }

    /// The next sequence, which was never used with this token before (rule V4).
    private func nextSequence(after found: SnapshotMark, _ writing: Writing) -> UInt64 {
        var last = writing.sequence
        if case .whole(let header) = found { last = max(last, header.sequence) }
        return last == .max ? 1 : last + 1
    }

    /// Removes the unfinished files of dead writers, at most once a minute (rule V3). Errors are ignored.
    private func removeAbandoned(_ writing: inout Writing) {
        let now = MonotonicClock.now
        if let swept = writing.sweptAt, now.subtractingSaturating(swept) < Self.sweepInterval { return }
        writing.sweptAt = now
        _ = try? UnfinishedFile.removeAbandoned(in: openFolder(), unfinishedPrefix)
    }

    private static let sweepInterval: Nanoseconds = 60_000_000_000

    // MARK: Apple's systems

    private enum Access { case reading, writing }

    private func protect(_ unfinished: String, as path: String) throws {
        guard let classes = ProtectionClasses.present else { return }
        #if canImport(Darwin)
            let wanted = options.fileProtection.flatMap { ProtectionClass(named: $0.rawValue) }
        #else
            let wanted: ProtectionClass? = nil
        #endif
        if let target = wanted ?? classes.ofFile(path) { try classes.set(target, unfinished) }
    }

    /// - parameter body: called with the path, which the coordinator may have changed.
    private func coordinated<T>(_ access: Access, _ body: (String) throws -> T) throws -> T {
        #if canImport(Darwin)
            guard options.isCoordinated else { return try body(path) }
            let coordinator = NSFileCoordinator(filePresenter: nil)
            var result: Result<T, any Error>?
            var error: NSError?
            switch access {
            case .reading:
                coordinator.coordinate(readingItemAt: url, options: .withoutChanges, error: &error) { url in
                    result = Result { try body(url.path) }
                }
            case .writing:
                coordinator.coordinate(writingItemAt: url, options: .forReplacing, error: &error) { url in
                    result = Result { try body(url.path) }
                }
            }
            if let result { return try result.get() }
            let reason = error?.localizedDescription ?? "it was cancelled"
            throw SnapshotFileError.other(path: path, reason: "NSFileCoordinator: \(reason)")
        #else
            return try body(path)
        #endif
    }
}
