import Glibc
import RoundtableTestSupport

/// What a disk holds after a prefix of a trace: for certain, and perhaps.
///
/// A write or truncation of a file is certain once a sync of this file has ended that began after it. A change of a folder is certain once
/// a sync of this folder has ended that began after it; a rename between two folders counts for the folder that it leads to.
struct DiskModel {
    /// A change of a file that no sync covers yet.
    struct PendingWrite {
        enum Change {
            case write(offset: Int, bytes: Range<Int>)
            case truncate(size: Int)
        }
        /// The position of the event in the trace.
        var event: Int
        var inode: UInt64
        var change: Change
    }

    enum FolderChange {
        case create(folder: UInt64, inode: UInt64, name: String)
        case unlink(folder: UInt64, name: String)
        case rename(from: UInt64, name: String, to: UInt64, newName: String, inode: UInt64)

        /// The folder whose sync makes the change certain.
        var folder: UInt64 {
            switch self {
            case .create(let folder, _, _), .unlink(let folder, _): folder
            case .rename(_, _, let folder, _, _): folder
            }
        }
    }

    struct PendingFolderChange {
        var event: Int
        var change: FolderChange
    }

    typealias Folders = [UInt64: [String: UInt64]]

    let trace: RecordedTrace
    /// Syncs of these files are forgotten.
    let ignored: IgnoredSyncs
    private(set) var files: [UInt64: [UInt8]] = [:]
    private(set) var writes: [PendingWrite] = []
    private(set) var folders: Folders
    private(set) var folderChanges: [PendingFolderChange] = []
    /// Folder changes before this event are certain where a sync of any file writes the journal of the file system.
    private(set) var journaled = 0
    /// The recent contents of mapped files, the last two.
    private(set) var samples: [UInt64: [Range<Int>]] = [:]
    private var syncs: [UInt64: Int] = [:]
    /// The name under which a file was first seen.
    private(set) var names: [UInt64: String] = [:]
    private(set) var bounds = AcknowledgedBounds()
    private(set) var unsupported: String?

    init(_ trace: RecordedTrace, ignoring ignored: IgnoredSyncs) {
        self.trace = trace
        self.ignored = ignored
        folders = [trace.rootInode: [:]]
    }

    /// - returns: whether a power cut after this event may leave something that it could not leave before.
    mutating func apply(_ index: Int) -> Bool {
        switch trace.events[index] {
        case .write(let inode, let offset, let bytes):
            writes.append(PendingWrite(event: index, inode: inode, change: .write(offset: offset, bytes: bytes)))
        case .truncate(let inode, let size):
            writes.append(PendingWrite(event: index, inode: inode, change: .truncate(size: size)))
        case .syncBegin(_, let number):
            syncs[number] = index
            bounds.syncBegins(number)
            return false
        case .syncEnd(let inode, let number): return sync(inode, number)
        case .create(let folder, let inode, let isFolder, let name):
            if names[inode] == nil { names[inode] = name }
            if isFolder { folders[inode] = [:] }
            folderChanges.append(
                PendingFolderChange(event: index, change: .create(folder: folder, inode: inode, name: name))
            )
        case .link(let folder, let inode, let name):
            names[inode] = name
            folderChanges.append(
                PendingFolderChange(event: index, change: .create(folder: folder, inode: inode, name: name))
            )
        case .unlink(let folder, let name):
            folderChanges.append(PendingFolderChange(event: index, change: .unlink(folder: folder, name: name)))
        case .rename(let from, let name, let to, let newName, let inode):
            names[inode] = newName
            let change = FolderChange.rename(from: from, name: name, to: to, newName: newName, inode: inode)
            folderChanges.append(PendingFolderChange(event: index, change: change))
        case .acknowledge(let acknowledgement): bounds.acknowledge(acknowledgement)
        case .mapped(let inode):
            if !isCompanion(inode) { unsupported = "a writable mapping of \(names[inode] ?? "an unknown file")" }
            return false
        case .unsupported(let inode, let call):
            if !isCompanion(inode) { unsupported = "\(call) of \(names[inode] ?? "an unknown file")" }
            return false
        case .sample(let inode, let bytes):
            samples[inode] = (samples[inode] ?? []).suffix(1) + [bytes]
            return false
        }
        return true
    }

    private mutating func sync(_ inode: UInt64, _ number: UInt64) -> Bool {
        guard let begin = syncs.removeValue(forKey: number) else { return false }
        // The file's syncs promise this, whether or not the model is configured to forget them.
        bounds.syncEnds(number, isWAL: names[inode]?.hasSuffix("-wal") == true)
        let isFolder = folders[inode] != nil
        defer {
            if folders[trace.rootInode]?[PowerCutPlaces.databaseName + "-wal"] != nil || ignored != .none {
                bounds.walIsNamed()
            }
        }
        guard !ignored.contains(names[inode] ?? "", isFolder: isFolder) else { return false }
        journaled = max(journaled, begin)
        if isFolder {
            Self.apply(
                folderChanges.filter { $0.event < begin && $0.change.folder == inode }.map(\.change),
                to: &folders
            )
            folderChanges.removeAll { $0.event < begin && $0.change.folder == inode }
        } else {
            var content = files[inode] ?? []
            for write in writes where write.inode == inode && write.event < begin { apply(write.change, to: &content) }
            files[inode] = content
            writes.removeAll { $0.inode == inode && $0.event < begin }
        }
        return true
    }

    /// Whether the file is SQLite's wal-index or a control block: memory that processes share, and that is nothing after a power cut.
    func isCompanion(_ inode: UInt64) -> Bool {
        guard let name = names[inode] else { return false }
        return name.hasSuffix("-shm") || name.contains("-coord") || name.hasPrefix(".roundtable-coord")
    }

    static func apply(_ changes: [FolderChange], to folders: inout Folders) {
        for change in changes {
            switch change {
            case .create(let folder, let inode, let name): folders[folder, default: [:]][name] = inode
            case .unlink(let folder, let name): folders[folder, default: [:]][name] = nil
            case .rename(let from, let name, let to, let newName, let inode):
                if folders[from]?[name] == inode { folders[from]?[name] = nil }
                folders[to, default: [:]][newName] = inode
            }
        }
    }

    /// Appends zeros.
    static func extend(_ content: inout [UInt8], to size: Int) {
        while content.count < size { content.append(contentsOf: zeros.prefix(size - content.count)) }
    }
    private static let zeros = [UInt8](repeating: 0, count: 1 << 16)

    /// Applies a change to a file's content.
    ///
    /// - parameter sectors: whether the sector of 512 bytes that contains this offset of the file is written; nil: all are.
    func apply(_ change: PendingWrite.Change, to content: inout [UInt8], sectors: ((Int) -> Bool)? = nil) {
        switch change {
        case .truncate(let size):
            if size < content.count {
                content.removeLast(content.count - size)
            } else {
                Self.extend(&content, to: size)
            }
        case .write(let offset, let bytes):
            var next = offset
            let end = offset + bytes.count
            while next < end {
                let stop = sectors == nil ? end : min(end, (next / CrashState.sectorSize + 1) * CrashState.sectorSize)
                if sectors?(next) ?? true {
                    if content.count < stop {
                        Self.extend(&content, to: stop)
                    }
                    // By memcpy(3), because generic code is slow in debug builds.
                    trace.bytes.withUnsafeBytes { source in
                        content.withUnsafeMutableBytes { target in
                            let from = bytes.lowerBound + next - offset
                            _ = memcpy(target.baseAddress! + next, source.baseAddress! + from, stop - next)
                        }
                    }
                }
                next = stop
            }
        }
    }
}

/// The syncs that a model forgets, to show that the check notices.
enum IgnoredSyncs: String, CaseIterable, Codable {
    case none
    /// Those of the WAL.
    case wal
    /// Those of the database file.
    case database
    /// Those of snapshot files, before they get their names.
    case snapshot
    /// Those of commands in the outbox.
    case outbox
    /// Those of folders.
    case folder

    func contains(_ name: String, isFolder: Bool) -> Bool {
        switch self {
        case .none: false
        case .wal: name.hasSuffix("-wal")
        case .database: name == PowerCutPlaces.databaseName
        case .snapshot: name.contains(".snapshot")
        case .outbox: name.hasSuffix(".command") || name.hasPrefix("outbox.")
        case .folder: isFolder
        }
    }
}

/// What must be there after a power cut, and at most may be.
struct AcknowledgedBounds: Codable {
    /// The last commit that was acknowledged. Commits are numbered in their order.
    private(set) var commit: UInt64 = 0
    /// The last commit that was acknowledged before a sync of the WAL began that has ended, once the WAL's name is certain, too.
    private(set) var syncedCommit: UInt64 = 0
    /// The acknowledged commands, as bits.
    private(set) var commands: UInt64 = 0
    private(set) var snapshot: UInt64 = 0
    /// The last number in the snapshot file that is not synced. Nothing requires that it is there.
    private(set) var unsyncedSnapshot: UInt64 = 0
    private var begun: [UInt64: UInt64] = [:]
    private var inWAL: UInt64 = 0

    mutating func acknowledge(_ acknowledgement: Acknowledgement) {
        switch acknowledgement.kind {
        case .commit: commit = max(commit, acknowledgement.number)
        case .command: commands |= 1 << acknowledgement.number
        case .snapshot: snapshot = max(snapshot, acknowledgement.number)
        case .checkpoint: syncedCommit = max(syncedCommit, acknowledgement.number)
        case .unsyncedSnapshot: unsyncedSnapshot = max(unsyncedSnapshot, acknowledgement.number)
        }
    }

    mutating func syncBegins(_ number: UInt64) { begun[number] = commit }

    mutating func syncEnds(_ number: UInt64, isWAL: Bool) {
        guard let commit = begun.removeValue(forKey: number), isWAL else { return }
        inWAL = max(inWAL, commit)
    }

    /// The name of the WAL is certain. Until then, a synced WAL may not be found.
    mutating func walIsNamed() { syncedCommit = max(syncedCommit, inWAL) }
}
