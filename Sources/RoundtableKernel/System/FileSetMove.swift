import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Moves a database and the files beside it into another folder of the same file system, in which it can be opened.
///
/// Companions first get a second name there (a link), then the database moves, then the first names go. So the database is never without its
/// journals, and no other database ever with them. What others create meanwhile stays: a name is removed only while it is that of the
/// file in the folder. Where there are no links, companions follow the database.
package struct FileSetMove: Sendable {
    private let parent: OpenFolder
    private let database: String

    /// - parameter database: the name of the database in `parent`.
    package init(of database: String, in parent: OpenFolder) { (self.database, self.parent) = (database, parent) }

    /// Moves the files that are there, and waits until that is on the disk. If it fails before the database has moved, nothing is moved.
    ///
    /// - Parameters:
    ///   - folder: has none of these names.
    ///   - linked: companions that must go with the database.
    ///   - others: companions that follow it.
    ///   - hasDatabase: whether the database itself is there.
    ///   - didMove: called when the database is not in its place any more.
    /// - throws: `SystemError`; `ENOENT` when the database has gone meanwhile.
    package func move(
        to folder: OpenFolder,
        linked: [String],
        others: [String] = [],
        hasDatabase: Bool = true,
        didMove: () -> Void = {}
    ) throws {
        do {
            for companion in linked where try parent.status(ofFile: companion) != nil {
                try? parent.link(companion, as: companion, in: folder)
            }
            try folder.sync()
            if hasDatabase { try parent.move(database, toUnused: database, in: folder) }
        } catch {
            removeLinks(linked, in: folder)
            throw error
        }
        didMove()
        // The companions must not lose their names on the disk before the database has.
        try sync(folder)
        try complete(folder, linked + others)
        try sync(folder)
    }

    /// Removes the names of companions that are in the folder beside the database, and moves the others there, unless there is another
    /// database by now, whose they may be.
    package func complete(_ folder: OpenFolder, _ companions: [String]) throws {
        try removeFirstNames(companions, in: folder)
        for companion in companions
        where try parent.status(ofFile: companion) != nil && folder.status(ofFile: companion) == nil
            && parent.status(ofFile: database) == nil
        {
            try parent.move(companion, toUnused: companion, in: folder)
        }
    }

    /// Removes the names here of companions that are in the folder too.
    package func removeFirstNames(_ companions: [String], in folder: OpenFolder) throws {
        for companion in companions where isSame(companion, in: folder) { try parent.removeFile(companion) }
    }

    /// Removes the names in the folder of companions that are here too.
    package func removeLinks(_ companions: [String], in folder: OpenFolder) {
        for companion in companions where isSame(companion, in: folder) { folder.removeIfPossible(companion) }
    }

    /// Moves all back, where nobody has created another database meanwhile.
    ///
    /// - throws: `SystemError`. What is in the folder then stays there.
    package func takeBack(from folder: OpenFolder, _ companions: [String]) throws {
        let hasMoved = try folder.status(ofFile: database) != nil
        if hasMoved, try parent.status(ofFile: database) != nil {
            throw SystemError(call: .rename, errno: EEXIST, path: parent.file(database))
        }
        for companion in companions
        where try folder.status(ofFile: companion) != nil && parent.status(ofFile: companion) == nil {
            do {
                try folder.link(companion, as: companion, in: parent)
            } catch {
                try folder.move(companion, toUnused: companion, in: parent)
            }
        }
        if hasMoved { try folder.move(database, toUnused: database, in: parent) }
        for companion in companions where isSame(companion, in: folder) { try folder.removeFile(companion) }
    }

    /// Whether a name here and one in the folder are those of one file.
    private func isSame(_ name: String, in folder: OpenFolder) -> Bool {
        guard let here = try? parent.status(ofFile: name), let there = try? folder.status(ofFile: name) else {
            return false
        }
        return FileIdentity(here) == FileIdentity(there)
    }

    private func sync(_ folder: OpenFolder) throws {
        try folder.sync()
        try parent.sync()
    }
}

extension FileSetMove {
    /// Names for a folder with a database of the past: `PREFIX-TIME`, and then more, until one is not in use.
    package static func timedNames(_ prefix: String) -> some Sequence<String> {
        let second = Date.now.formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        return (1...1_000).lazy.map { "\(prefix)-\(second)" + ($0 == 1 ? "" : "-\($0)") }
    }
}
