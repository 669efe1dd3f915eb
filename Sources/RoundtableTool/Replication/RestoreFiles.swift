import Foundation
import Roundtable
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// How a restored database comes to its place, and what was there goes out of the way. A process that is killed at any instruction leaves
// the database that was there, or the restored one, whole, or neither; in that case the one that was there is whole in its folder.

extension RestoreTarget {
    /// The beginning of the names of folders in which a database is being restored.
    private var unfinished: String {
        let short = name.utf8.count <= 100 ? name : String(Checksum.fnv1a(name.utf8), radix: 16)
        return ".\(short)-restore"
    }

    /// Creates the folder in which the database is restored.
    func makeTemporaryFolder() throws -> String {
        let temporary = "\(folder)/\(UnfinishedFile.name(unfinished))"
        guard mkdir(temporary, 0o700) == 0 else { throw SystemError(call: .mkdir, errno: errno, path: temporary) }
        return temporary
    }

    /// Removes what earlier runs left that were killed: their temporary folders, and second names of files that they were moving away.
    func removeAbandoned() throws {
        for candidate in try System.names(inFolder: folder) ?? [] {
            if isAbandoned(candidate) {
                try FileManager.default.removeItem(atPath: "\(folder)/\(candidate)")
            } else if candidate.hasPrefix(setAsidePrefix) {
                removeSecondNames(in: "\(folder)/\(candidate)")
            }
        }
    }

    private func isAbandoned(_ candidate: String) -> Bool {
        guard candidate.hasPrefix(unfinished + "."), UnfinishedFile.isName(candidate) else { return false }
        let fields = candidate.dropFirst(unfinished.count + 1).dropLast(".new".count)
            .split(separator: "-", omittingEmptySubsequences: false)
        guard fields.count == 5, let pid = Int32(fields[0]), pid > 0, let start = UInt64(fields[1]),
            let namespace = UInt64(fields[2])
        else { return false }
        let writer = ProcessIdentity(pid: pid, startTime: start, namespace: namespace)
        switch writer.liveness(seenFrom: .current) {
        case .alive, .stopped: return false
        case .dead: return true
        case .unknown:
            guard let status = try? System.statusOfLink(at: "\(folder)/\(candidate)") else { return false }
            return Int64(time(nil)) - status.modificationTime / 1_000_000_000 > 3600
        }
    }

    // MARK: Moving away

    private var setAsidePrefix: String { "\(name)-replaced-" }

    /// Moves the database that is there, with its companions, into a folder beside it, in which it can be opened.
    ///
    /// The journals first get a second name there, then the database moves, then the journals lose their first names. So the database is
    /// never without its journals, and no other database ever with them.
    ///
    /// - returns: the folder; nil when there was nothing to move.
    func setAside() throws -> String? {
        let companions = try companions()
        guard existing != nil || !companions.isEmpty else { return nil }
        let aside = try makeAsideFolder()
        var linked: Set<String> = []
        for companion in companions where Self.journals.contains(where: { companion == name + $0 }) {
            // Some file systems have no hard links. There, the journal follows the database.
            if link("\(folder)/\(companion)", "\(aside)/\(companion)") == 0 { linked.insert(companion) }
        }
        try System.syncFolder(at: aside)
        if existing != nil { try Self.move(path, toUnused: "\(aside)/\(name)") }
        for companion in companions {
            if linked.contains(companion) {
                try System.removeFile(at: "\(folder)/\(companion)")
            } else {
                try Self.move("\(folder)/\(companion)", toUnused: "\(aside)/\(companion)")
            }
        }
        try System.syncFolder(at: aside)
        try System.syncFolder(at: folder)
        return aside
    }

    private func makeAsideFolder() throws -> String {
        let second = Date.now.formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        for number in 1...1000 {
            let aside = "\(folder)/\(setAsidePrefix)\(second)\(number == 1 ? "" : "-\(number)")"
            if mkdir(aside, 0o700) == 0 { return aside }
            guard errno == EEXIST else { throw SystemError(call: .mkdir, errno: errno, path: aside) }
        }
        throw ToolError("\(folder): has a thousand folders of one second. Remove those that are not needed.")
    }

    /// Removes a second name of a journal: in the folder, if the database did not follow; else beside the place of the database.
    private func removeSecondNames(in aside: String) {
        let hasDatabase = (try? System.statusOfLink(at: "\(aside)/\(name)")) ?? nil != nil
        for journal in Self.journals.map({ name + $0 }) {
            guard let here = try? System.statusOfLink(at: "\(folder)/\(journal)"),
                let there = try? System.statusOfLink(at: "\(aside)/\(journal)"),
                FileIdentity(here) == FileIdentity(there)
            else { continue }
            System.removeIfPossible(hasDatabase ? "\(folder)/\(journal)" : "\(aside)/\(journal)")
        }
        if !hasDatabase { rmdir(aside) }
    }

    // MARK: Moving into place

    /// Gives the restored database its name, unless something has that name by now.
    func place(_ restored: String) throws {
        try System.syncFile(at: restored)
        do {
            try Self.move(restored, toUnused: path)
        } catch let error as SystemError where error.errno == EEXIST {
            throw ToolError(
                "\(path): another program has created it meanwhile, and it was left as it is. End that program, and restore again with --replace."
            )
        }
        try System.syncFolder(at: folder)
    }

    /// Gives a restored file the permissions of the database that it replaces. What the superuser restores without one belongs to the
    /// owner of the folder, who could not write it otherwise.
    func setAccess(ofFileAt restored: String) throws {
        if let existing {
            let access = FileAccess(existing)
            guard chmod(restored, access.mode) == 0 else {
                throw SystemError(call: .chmod, errno: errno, path: restored)
            }
        }
        guard geteuid() == 0, let model = try existing ?? System.status(ofFileAt: folder) else { return }
        guard chown(restored, model.st_uid, model.st_gid) == 0 else {
            throw SystemError(call: .chown, errno: errno, path: restored)
        }
    }

    /// Renames a file or folder, in one step and replacing nothing; where the system cannot do that, a file has both names for a moment.
    static func move(_ path: String, toUnused new: String) throws {
        switch renameExclusively?(AT_FDCWD, path, AT_FDCWD, new, renameFlag) {
        case 0: return
        case -1 where ![EINVAL, ENOSYS, ENOTSUP].contains(errno):
            throw SystemError(call: .rename, errno: errno, path: new)
        default: break
        }
        if let status = try System.statusOfLink(at: path), status.isFolder {
            // A folder is replaced only if it is empty.
            try System.renameFile(at: path, to: new)
        } else {
            try System.renameFile(at: path, toUnused: new)
        }
    }

    // renameat2(2) of Linux, renameatx_np(2) of Darwin. They are looked up by name, because the headers of Linux show theirs to C
    // programs only that ask for GNU's functions.
    private typealias RenameFunction =
        @convention(c) (Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32) -> Int32
    #if canImport(Darwin)
        private static let renameName = "renameatx_np"
        /// RENAME_EXCL
        private static let renameFlag: UInt32 = 4
    #else
        private static let renameName = "renameat2"
        /// RENAME_NOREPLACE
        private static let renameFlag: UInt32 = 1
    #endif
    private static let renameExclusively: RenameFunction? =
        dlsym(dlopen(nil, RTLD_NOW), renameName).map { unsafeBitCast($0, to: RenameFunction.self) }
}
