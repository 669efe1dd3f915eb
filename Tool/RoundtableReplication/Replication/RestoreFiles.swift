import Foundation
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

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
    func makeStagingFolder() throws -> StagingFolder { try StagingFolder(UnfinishedFile.name(unfinished), in: files) }

    /// Removes what earlier runs left that were killed: their folders, and second names of files that they were moving away.
    func removeAbandoned() throws {
        try StagingFolder.removeAbandoned(in: files, unfinished)
        for candidate in try files.names() where candidate.hasPrefix(setAsidePrefix + "-") {
            removeSecondNames(in: candidate)
        }
    }

    // MARK: Moving away

    private var setAsidePrefix: String { "\(name)-replaced" }
    private var move: FileSetMove { FileSetMove(of: name, in: files) }

    /// Moves the database that is there, with its companions, into a folder beside it, in which it can be opened.
    ///
    /// If a step fails, all is moved back. ``kept()`` stays.
    ///
    /// - returns: the folder; nil when there was nothing to move.
    func setAside() throws -> String? {
        let kept = try kept()
        let companions = try companions().filter { !kept.contains($0) }
        guard existing != nil || !companions.isEmpty else { return nil }
        let aside = try makeAsideFolder()
        let journals = DatabaseCompanions.journals.map { name + $0 }
        do {
            try move.move(
                to: aside,
                linked: companions.filter(journals.contains),
                others: companions.filter { !journals.contains($0) },
                hasDatabase: existing != nil
            )
        } catch {
            do { try move.takeBack(from: aside, companions) } catch _ {
                throw ToolError(
                    "\(ToolError.line(for: error)) A part of what was there before is in \(aside.path)."
                )
            }
            files.removeFolderIfEmpty((aside.path as NSString).lastPathComponent)
            throw error
        }
        // Last, because an unfinished folder is known by being private (`removeSecondNames`). Where this fails, the folder stays private.
        if let existing { try? aside.share(withUsersOf: existing) }
        return aside.path
    }

    /// The companions of the database that this process may not move: in a sticky folder, such as /tmp, those of other users. They do no more
    /// harm to the restored database than to any other in that folder.
    func kept() throws -> [String] { try companions().filter { try owner(keeping: $0) != nil } }

    /// The user who alone may move a file out of this folder; nil when this process may, or there is no such file.
    private func owner(keeping file: String) throws -> uid_t? {
        let (user, above) = (geteuid(), try files.status())
        guard user != 0, above.st_mode & S_ISVTX != 0, above.st_uid != user,
            let status = try files.status(ofFile: file),
            status.st_uid != user
        else { return nil }
        return status.st_uid
    }

    /// - throws: `ToolError` if another user alone may move the database, or a file beside it that SQLite would use.
    func checkMoving() throws {
        for file in ["", "-shm"] + DatabaseCompanions.journals {
            guard let owner = try owner(keeping: name + file) else { continue }
            throw ToolError(
                "\(path)\(file): belongs to another user, \(owner), and nobody else may move it out of this folder. Let that user remove it, or restore into a folder that no other user may write."
            )
        }
    }

    private func makeAsideFolder() throws -> OpenFolder {
        for aside in FileSetMove.timedNames(setAsidePrefix) {
            do {
                // It has no mark, because it is to stay.
                return try files.makePrivateFolder(aside)
            } catch let error as SystemError where error.isAlreadyThere {}
        }
        throw ToolError("\(folder): has a thousand folders of one second. Remove those that are not needed.")
    }

    /// Removes a second name of a journal: in the folder, if the database did not follow; else beside the place of the database.
    private func removeSecondNames(in name: String) {
        // Another user's folder proves nothing.
        guard let aside = try? files.folder(name), (try? aside.isOwn) == true else { return }
        let journals = DatabaseCompanions.journals.map { self.name + $0 }
        if (try? aside.status(ofFile: self.name)) ?? nil != nil {
            try? move.removeFirstNames(journals, in: aside)
        } else {
            move.removeLinks(journals, in: aside)
            files.removeFolderIfEmpty(name)
        }
    }

    // MARK: Moving into place

    /// Gives the restored database its name, unless something has that name by now.
    func place(_ file: String, from staging: StagingFolder) throws {
        do {
            try staging.folder.move(file, toUnused: name, in: files)
        } catch let error as SystemError where error.errno == EEXIST {
            throw ToolError(
                "\(path): another program has created it meanwhile, and it was left as it is. End that program, and restore again with --replace."
            )
        }
        try files.sync()
    }

    /// Gives a restored file the permissions of the database that it replaces, and puts it on the disk. What the superuser restores without
    /// one belongs to the owner of the folder, who could not write it otherwise.
    func finish(_ file: String, in staging: StagingFolder) throws {
        let model = geteuid() == 0 ? try existing ?? files.status() : nil
        try staging.folder.finishFile(
            file,
            mode: existing.map { FileAccess($0).mode },
            owner: model.map { ($0.st_uid, $0.st_gid) }
        )
    }
}
