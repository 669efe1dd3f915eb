import Foundation
import Roundtable
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The place of an outbox, and the database that its commands are for, if that is known.
struct OutboxPlace {
    private enum Position {
        case beside(database: URL)
        case apart(folder: URL, database: URL?)
    }

    private let position: Position
    let files: OutboxFiles
    /// The arguments of this program that name the place, for use in command lines that it prints.
    let arguments: [String]

    /// - Parameters:
    ///   - path: the path of the database or of the outbox's folder.
    ///   - folder: the folder of an outbox that does not lie beside the database; else nil.
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
                \(url.path): is a folder, and no outbox: it has no folder 'commands'. Name a database, or the outbox itself, the folder \
                with 'commands' in it.
                """
            )
        }
    }

    /// The outbox in an existing folder.
    ///
    /// - throws: `ToolError` when the folder does not exist, because a command that only reads must not create it.
    private static func files(at folder: URL) throws -> OutboxFiles {
        do {
            let files = try OutboxFiles(at: folder)
            if files.hasFolder { return files }
        } catch OutboxError.file(_, .folderMissing) {}
        throw ToolError("\(folder.path): there is no such folder. Check the path.")
    }

    /// Checks that the folder of `--folder` exists, if the option is given.
    static func check(folder: String?) throws {
        if let folder { _ = try files(at: URL(fileURLWithPath: folder)) }
    }

    /// The existing database that a folder lies beside, found by the name of the folder.
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

    /// The database; nil when only the files of the outbox are known.
    var database: URL? {
        switch position {
        case .beside(let database): database
        case .apart(_, let database): database
        }
    }

    /// The folder of the outbox; nil when the outbox lies beside the database.
    var folder: URL? {
        if case .apart(let folder, _) = position { folder } else { nil }
    }

    /// The database, if its file exists.
    var existingDatabase: URL? { database.flatMap { Self.isThere($0.path) ? $0 : nil } }

    /// Whether the database is known, but does not exist.
    var isWithoutDatabase: Bool { database != nil && existingDatabase == nil }

    /// The reason why the waiting commands are not known although the database exists: it has no outbox beside it. nil when they are known.
    var missing: String? {
        guard folder == nil, existingDatabase != nil, !files.hasFolder else { return nil }
        return OutboxFiles.noneBeside(files.path)
    }

    /// The path at the beginning of error messages.
    var name: String { database?.path ?? files.path }

    /// The command line that lists the content of this outbox.
    var look: String { Terminal.commandLine(arguments) }

    func options() -> SharedDatabase.Options {
        var options = SharedDatabase.Options()
        // The tool reports what goes wrong itself, on one line.
        options.eventLog = .off
        options.outboxFolder = folder
        options.waitWhileStopped()
        return options
    }

    func outbox(as sender: String) throws -> CommandOutbox {
        switch position {
        case .beside(let database): try CommandOutbox(forDatabaseAt: database, as: sender)
        case .apart(let folder, _): try CommandOutbox(at: folder, as: sender)
        }
    }

    private func countOfWaiting() throws -> Int {
        var count = 0
        try files.walk(asking: nil).run { if case .waiting = $0 { count += 1 } }
        return count
    }

    /// The service that applies the waiting commands; nil when the database is not known or cannot be inspected.
    func service() -> OutboxService? {
        guard let existingDatabase else { return nil }
        return try? DatabaseStatus(ofDatabaseAt: existingDatabase, outboxFolder: folder).outboxService
    }

    /// The error for a database that does not exist, but for which commands wait.
    ///
    /// - returns: nil for any other error.
    static func explaining(_ error: any Error, path: String, folder: String?) -> ToolError? {
        guard case SharedDatabaseError.notAFile(_, Onlooker.noSuchFile) = error,
            let place = try? OutboxPlace(path: path, folder: folder), place.database != nil,
            let count = try? place.countOfWaiting(), count > 0
        else { return nil }
        return ToolError(
            """
            \(place.name): there is no such file yet, and \(count.of("command")) \(count == 1 ? "waits" : "wait") for the process that \
            creates it: start the program that opens it with handlers. To see what waits: \(place.look)
            """
        )
    }

    /// - throws: `ToolError` when the file system is mounted read-only, whatever the permissions.
    func checkIsWritable() throws {
        for path in [files.path, existingDatabase?.path].compactMap(\.self) {
            var status = statvfs()
            guard statvfs(path, &status) == 0, UInt(status.f_flag) & UInt(ST_RDONLY) != 0 else { continue }
            throw ToolError(
                """
                \(path): the file system is mounted read-only, and nothing can be changed there. Use list and show only; or mount it for writing, \
                or copy the files to another place.
                """
            )
        }
    }
}
