import Foundation
import RoundtableCore
import RoundtableKernel

/// The files in the App Group's container on iOS, or in its simulator, that has a database.
///
/// iOS kills a process that is suspended with a lock on any of them. Elsewhere, no process is killed for a lock.
struct GroupContainer {
    let path: String
    /// The paths of files in it, except the database's own, and of no folders.
    let files: [String]
    /// Whether there are more files than are listed.
    let isCut: Bool

    /// A limit of the time that a container of many files takes.
    static let most = 10_000

    /// - parameter databasePath: without symbolic links.
    /// - returns: nil when the database lies in no such container.
    init?(ofDatabaseAt databasePath: String, most: Int = Self.most) {
        guard let path = AppContainer.groupOnIOS(holding: databasePath),
            let names = FileManager.default.enumerator(atPath: path)
        else { return nil }
        var files: [String] = []
        while files.count <= most, let name = names.nextObject() as? String {
            guard names.fileAttributes?[.type] as? FileAttributeType != .typeDirectory else { continue }
            let file = "\(path)/\(name)"
            if file != databasePath { files.append(file) }
        }
        self.path = path
        isCut = files.count > most
        self.files = files.prefix(most).sorted()
    }

    /// The files of each library, recognized by their names. No file is opened: closing it again would drop the locks that the library
    /// holds on it in this process.
    var libraries: [LockingLibrary: [String]] {
        let all = Set(files)
        return files.reduce(into: [:]) { libraries, file in
            if let library = LockingLibrary(ofFileAt: file, isThere: all.contains) {
                libraries[library, default: []].append(file)
            }
        }
    }

    /// The databases of SQLite for whose readers iOS kills, too: in rollback-journal mode, or with an encrypted header.
    ///
    /// Headers are read, so this is for a process that has none of these files open, in whatever library (rule G5).
    var riskyDatabases: [String] {
        let all = Set(files)
        return files.filter { file in
            // Opening does not block, even if another program has put a pipe there.
            let limit = DatabaseHeader.size - 1
            let bytes = try? System.contents(ofFileAt: file, limit: limit, followingLinks: false)
            guard let bytes, bytes.count > limit else { return false }
            if let header = DatabaseHeader(bytes) { return !header.isWAL }
            return ["-wal", "-shm", "-journal"].contains { all.contains(file + $0) }
        }
    }
}
