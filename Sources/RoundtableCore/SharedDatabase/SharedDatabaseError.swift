import Foundation

/// The errors of sharing itself. Errors of SQLite are GRDB's `DatabaseError`.
public enum SharedDatabaseError: Error, Equatable, Sendable {
    /// The database has migrations that this process does not know: a newer version of the app, or of one of its extensions, has
    /// migrated it. Nothing was written. Opening throws this error, and so do writes if the database was migrated while it was
    /// open (``SharedDatabase/Options/newerSchemaPolicy``).
    ///
    /// If the unknown migration was merged into another one, name it: ``SharedSchema/init(_:merging:)``. In development, another branch has
    /// often migrated the database.
    case schemaTooNew(path: String, unknownMigrations: [String])

    /// The migrator has `eraseDatabaseOnSchemaChange` set, and the schema has changed, but others have the database open: it is only erased
    /// when nobody else has. Nothing was changed.
    case erasesDatabaseOnSchemaChange(path: String, names: [String])

    /// Programs that are no participants have the database open, and its files would be moved away from under them. Nothing was changed.
    /// The last connection of such a program would remove the `-wal` file of the next database when it is closed.
    case openInOtherPrograms(path: String, names: [String])

    /// `readonly` is set in ``SharedDatabase/Options/configuration``, but the database was opened for writing, which could create or
    /// migrate it. Nothing was written.
    case readOnlyConfiguration(path: String)

    /// The file lies on a network file system, where neither shared memory nor, often, SQLite's locks work: NFS, SMB and the like, sshfs
    /// and rclone mounts, the shared folders of virtual machines and of Docker Desktop.
    case networkFileSystem(path: String, name: String)

    /// A file of the database is not in its place any more: it was replaced, removed or moved away while this process had it open. Nothing
    /// more is read or written, and observations end with this error. A commit that was acknowledged until 10 ms after that may be in the lost
    /// file alone: save it before the process closes the database (*Copying and Restoring*). Then open the database again.
    case fileLost(path: String, LostFile)

    /// The files beside the database are not those of the file that is there. It was replaced, removed or moved without them. Nothing was
    /// opened, because SQLite would damage the database, or remove commits that are in no other file.
    case foreignFiles(path: String, reason: String)

    /// The URL does not name a file. It was probably made with `URL(string:)` of a path.
    case notAFileURL(URL)

    /// The path names something that cannot be a database file. If that is a folder, the name of the file is often missing in the URL. Hard
    /// links are often made by a program for backups or deduplication: `find DIR -samefile app.db` finds the other names.
    case notAFile(path: String, reason: String)

    /// The process is not in this App Group.
    case noAppGroup(String)

    /// A protected access could not begin, because the database is suspended and the system grants no assertion. The system is
    /// about to suspend the process, or has granted all the time that it grants. The work can also be left as a command in an outbox.
    case assertionRefused(name: String)

    /// The program is shutting down, and the database is about to be closed: a write that had not begun is refused. Nothing was
    /// written.
    ///
    /// A server answers such a request with status 503, so that its load balancer repeats it elsewhere. If workers of a service group get
    /// this error, their `SharedDatabaseService` is not the first service of the group.
    case shuttingDown(path: String)
}

extension SharedDatabaseError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .schemaTooNew(let path, let unknown):
            """
            \(path): the database is newer than this program: it has the migration\(unknown.count == 1 ? "" : "s") \
            \(unknown.map { "'\($0)'" }.joined(separator: ", ")), which this program does not know. \
            Nothing was changed. Update this program.
            """
        case .erasesDatabaseOnSchemaChange(let path, let names):
            """
            \(path): the schema has changed, and eraseDatabaseOnSchemaChange would erase what \(names.formatted(.list(type: .and))) \
            \(names.count == 1 ? "has" : "have") open. Nothing was changed. End that first, and open the database again.
            """
        case .openInOtherPrograms(let path, let names):
            """
            \(path): is open in \(names.formatted(.list(type: .and))), without a place in the control block, so that it cannot be moved aside \
            safely. Nothing was changed. End that first, and try again.
            """
        case .readOnlyConfiguration(let path):
            """
            \(path): the configuration in the options is readonly, and open() writes: it creates and migrates the database. Call \
            openReadOnly() to read it, or clear readonly to write it.
            """
        case .networkFileSystem(let path, let name):
            """
            \(path): on a network file system (\(name)), where processes do not share memory and SQLite's locks are not \
            reliable. Put the database on a local disk.
            """
        case .fileLost(let path, let file):
            """
            \(file.text(path: path)). Nothing more is read or written here. Before this process ends or closes the database, run \
            'roundtable doctor' on the path where the files are now: it says how to save what only this process has. Then close the database, \
            and open it again. To put other content into a database that is open, use 'roundtable replace', and do not move files.
            """
        case .foreignFiles(let path, let reason):
            "\(path): \(reason)"
        case .notAFileURL(let url):
            "\(url): not a file URL. A shared database is a file. Use URL(fileURLWithPath:)."
        case .notAFile(let path, let reason):
            "\(path): \(reason)"
        case .noAppGroup(let group):
            """
            This process is not in the App Group '\(group)'. Add the group to the entitlements of this target (in Xcode: Signing & \
            Capabilities, App Groups), the app's and each extension's.
            """
        case .assertionRefused(let name):
            """
            '\(name)' was not started: the system grants this process no more time before it is suspended. Do it when the app is in the \
            foreground again, or in a background task that the system launches.
            """
        case .shuttingDown(let path):
            """
            \(path): this process is shutting down, and closes the database when the writes that run have ended. Nothing was written. Send \
            the request to another process, or repeat it after the restart.
            """
        }
    }

    public var errorDescription: String? {
        switch self {
        case .schemaTooNew: "The database was changed by a newer version of this program."
        case .networkFileSystem: "The database is on a network drive, where programs cannot share it."
        case .fileLost: "The database was replaced, removed or moved while it was open."
        case .foreignFiles: "The database and the files beside it do not belong together."
        case .assertionRefused: "The system is about to suspend this program."
        case .shuttingDown: "This program is about to end."
        case .openInOtherPrograms: "Other programs have the database open."
        case .erasesDatabaseOnSchemaChange, .readOnlyConfiguration, .notAFileURL, .notAFile, .noAppGroup:
            "The database cannot be opened."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .schemaTooNew: "Update this program."
        case .networkFileSystem: "Move it to a disk of this computer."
        case .fileLost: "Open it again."
        case .foreignFiles: "Restore all of its files from the same backup."
        case .assertionRefused: "Try again when the program is open."
        case .shuttingDown: "Try again when it runs."
        case .openInOtherPrograms: "Quit them, and try again."
        case .erasesDatabaseOnSchemaChange, .readOnlyConfiguration, .notAFileURL, .notAFile, .noAppGroup: nil
        }
    }
}
