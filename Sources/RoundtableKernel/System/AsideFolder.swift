import Foundation

/// The folders beside a database into which its files are moved out of the way, and in which it can be opened: `NAME-PURPOSE-TIME`.
///
/// Companions first get a second name there, then the database moves, then they lose their first names. So the database is never without
/// its journals, and no other database ever with them. A process that is killed leaves second names, which ``removeSecondNames()``
/// removes: in the folder, if the database did not follow; else beside the place of the database.
package struct AsideFolder: Sendable {
    /// Not all could be moved, and what was moved could not be moved back.
    package struct PartlyMoved: Error {
        package let path: String
        package let error: any Error
    }

    private let parent: OpenFolder
    private let database: String
    private let prefix: String

    /// - Parameters:
    ///   - database: the name of the database in `parent`.
    ///   - purpose: the part of the folder's name before the time.
    package init(of database: String, in parent: OpenFolder, _ purpose: String) {
        (self.database, self.parent) = (database, parent)
        prefix = "\(database)-\(purpose)-"
    }

    /// Moves the database, if it is there, and companions, and waits until that is on the disk. If a step fails, all is moved back.
    ///
    /// - Parameters:
    ///   - linked: companions that must go with the database. Some file systems have no hard links: there, they follow it.
    ///   - moved: companions that follow it.
    ///   - prepare: called with the empty folder.
    ///   - didMove: called when the database is not in its place any more.
    /// - returns: the folder, which this process's user alone may enter.
    /// - throws: `SystemError`; ``PartlyMoved``; what `prepare` throws.
    package func move(
        linked: [String],
        moved: [String],
        prepare: (OpenFolder) throws -> Void = { _ in },
        didMove: () -> Void = {}
    ) throws -> OpenFolder {
        let folder = try makeFolder()
        // What takes back the steps that were done.
        var undo: [() throws -> Void] = []
        do {
            try prepare(folder)
            var followers = moved
            for companion in linked where try parent.status(ofFile: companion) != nil {
                guard (try? parent.link(companion, as: companion, in: folder)) != nil else {
                    followers.append(companion)
                    continue
                }
                undo.append { try folder.removeFile(companion) }
            }
            try folder.sync()
            func move(_ name: String) throws {
                guard try parent.status(ofFile: name) != nil else { return }
                try parent.move(name, toUnused: name, in: folder)
                undo.append { try folder.move(name, toUnused: name, in: parent) }
            }
            try move(database)
            didMove()
            for companion in linked where !followers.contains(companion) {
                if try parent.removeFile(companion) {
                    undo.append { try folder.link(companion, as: companion, in: parent) }
                }
            }
            for companion in followers { try move(companion) }
            try folder.sync()
            try parent.sync()
            return folder
        } catch {
            var isBack = true
            for step in undo.reversed() { do { try step() } catch { isBack = false } }
            guard isBack else { throw PartlyMoved(path: folder.path, error: error) }
            _ = try? parent.removeAll(folder.name)
            throw error
        }
    }

    private func makeFolder() throws -> OpenFolder {
        let second = Date.now.formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        var number = 1
        while true {
            do {
                // It has no mark, because it is to stay.
                return try parent.makePrivateFolder("\(prefix)\(second)" + (number == 1 ? "" : "-\(number)"))
            } catch let error as SystemError where error.isAlreadyThere && number < 1_000 {
                number += 1
            }
        }
    }

    /// The folders of this purpose that this user has made.
    private var own: [OpenFolder] {
        get throws {
            // Another user's folder proves nothing.
            try parent.names().filter { $0.hasPrefix(prefix) }.compactMap { try? parent.folder($0) }.filter {
                (try? $0.isOwn) == true
            }
        }
    }

    /// Removes the second names of companions that killed processes have left.
    package func removeSecondNames() throws {
        for folder in try own {
            let hasDatabase = (try? folder.status(ofFile: database)) ?? nil != nil
            for companion in ["-wal", "-journal", "-shm"].map({ database + $0 }) {
                guard let here = try? parent.status(ofFile: companion),
                    let there = try? folder.status(ofFile: companion),
                    FileIdentity(here) == FileIdentity(there)
                else { continue }
                (hasDatabase ? parent : folder).removeIfPossible(companion)
            }
            if !hasDatabase { parent.removeFolderIfEmpty(folder.name) }
        }
    }

    /// Removes the folders of this purpose, with the databases in them.
    package func removeAll() throws {
        for folder in try own { _ = try parent.removeAll(folder.name) }
    }
}

extension OpenFolder {
    fileprivate var name: String { System.place(of: path).name }
}
