import Foundation
import Roundtable

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Where an outbox is, and the database that its commands are for, as far as that is known.
struct OutboxPlace {
    private enum Position {
        case beside(database: URL)
        case apart(folder: URL, database: URL?)
    }

    private let position: Position
    let files: OutboxFiles
    /// What this program was told, to be told again.
    let arguments: [String]

    /// - Parameters:
    ///   - path: of the database; or of the outbox's folder.
    ///   - folder: where it does not lie beside the database.
    init(path: String, folder: String?) throws {
        let url = URL(fileURLWithPath: path)
        let isFolder = Self.isFolder(url.path)
        guard !isFolder || folder == nil else {
            throw ToolError(
                "\(url.path): is a folder. With --folder, name the database; or name the outbox's folder alone."
            )
        }
        arguments = ["outbox", path] + (folder.map { ["--folder", $0] } ?? [])
        if let folder {
            position = .apart(folder: URL(fileURLWithPath: folder), database: url)
        } else if !isFolder {
            position = .beside(database: url)
        } else if let database = Self.databaseBeside(url) {
            position = .beside(database: database)
        } else {
            position = .apart(folder: url, database: nil)
        }
        switch position {
        case .beside(let database): files = try OutboxFiles(forDatabaseAt: database)
        case .apart(let folder, _): files = try Self.files(at: folder)
        }
        if isFolder, !Self.isThere(files.commandsPath) {
            throw ToolError(
                """
                \(url.path): is a folder, and no outbox: it has no folder 'commands'. Name a database, or the outbox itself, the folder with 'commands' in it.
                """
            )
        }
    }

    /// The outbox in a folder that is there.
    ///
    /// - throws: also when it is not: who looks makes no folders.
    private static func files(at folder: URL) throws -> OutboxFiles {
        do {
            let files = try OutboxFiles(at: folder)
            if files.hasFolder { return files }
        } catch OutboxError.folderMissing {}
        throw ToolError("\(folder.path): there is no such folder. Look at the path.")
    }

    /// The same, where a folder is named with `--folder`.
    static func check(folder: String?) throws {
        if let folder { _ = try files(at: URL(fileURLWithPath: folder)) }
    }

    /// The database that a folder lies beside, by its name.
    private static func databaseBeside(_ folder: URL) -> URL? {
        let ending = "-outbox"
        guard folder.path.hasSuffix(ending) else { return nil }
        let path = String(folder.path.dropLast(ending.count))
        return isThere(path) && !isFolder(path) ? URL(fileURLWithPath: path) : nil
    }

    private static func isThere(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

    private static func isFolder(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
    }

    /// nil: files alone.
    var database: URL? {
        switch position {
        case .beside(let database): database
        case .apart(_, let database): database
        }
    }

    /// nil: beside the database.
    var folder: URL? {
        if case .apart(let folder, _) = position { folder } else { nil }
    }

    /// What is there to be opened.
    var existingDatabase: URL? { database.flatMap { Self.isThere($0.path) ? $0 : nil } }

    /// Whether the database is known, and is not there.
    var isWithoutDatabase: Bool { database != nil && existingDatabase == nil }

    /// Why what waits is not known, although there is a database: its outbox is elsewhere, if it has one. nil when it is not so.
    var missing: String? {
        guard folder == nil, existingDatabase != nil, !files.hasFolder else { return nil }
        return OutboxFiles.noneBeside(files.path)
    }

    /// What errors begin with.
    var name: String { database?.path ?? files.path }

    /// The command line that lists what is here.
    var look: String { Terminal.commandLine(arguments) }

    func options() -> SharedDatabase.Options {
        var options = SharedDatabase.Options()
        options.outboxFolder = folder
        options.waitWhileStopped()
        return options
    }

    func outbox(as sender: String) throws -> Outbox {
        switch position {
        case .beside(let database): try Outbox(forDatabaseAt: database, as: sender)
        case .apart(let folder, _): try Outbox(at: folder, as: sender)
        }
    }

    private func countOfWaiting() throws -> Int {
        var count = 0
        try files.walk(asking: nil).run { if case .waiting = $0 { count += 1 } }
        return count
    }

    /// Who applies what waits; nil when the database is not known, or cannot be looked at.
    func service() -> OutboxService? {
        guard let existingDatabase else { return nil }
        return try? SharedDatabase.status(ofDatabaseAt: existingDatabase, outboxAt: folder).outboxService
    }

    /// What is said of a database that is not there, when commands wait for it all the same.
    ///
    /// - returns: nil for any other error.
    static func explaining(_ error: any Error, path: String, folder: String?) -> ToolError? {
        guard case SharedDatabaseError.notAFile(_, Onlooker.noSuchFile) = error,
            let place = try? OutboxPlace(path: path, folder: folder), place.database != nil,
            let count = try? place.countOfWaiting(), count > 0
        else { return nil }
        return ToolError(
            """
            \(place.name): there is no such file yet, and \(count.of("command")) \(count == 1 ? "waits" : "wait") for who makes it: start the \
            program that opens it with handlers. See what waits: \(place.look)
            """
        )
    }

    /// - throws: when nothing can be changed here, whatever the permissions.
    func checkIsWritable() throws {
        for path in [files.path, existingDatabase?.path].compactMap(\.self) {
            var status = statvfs()
            guard statvfs(path, &status) == 0, UInt(status.f_flag) & UInt(ST_RDONLY) != 0 else { continue }
            throw ToolError(
                """
                \(path): the file system is mounted read-only, and nothing can be changed there. Look only (list, show); or mount it for writing, \
                or copy the files to another place.
                """
            )
        }
    }
}
