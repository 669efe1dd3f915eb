import Foundation
import RoundtableCore
import RoundtableKernel

/// The files in the App Group's container on iOS, or in its simulator, that has a database.
///
/// iOS kills a process that is suspended with a lock on any of them. Elsewhere, no process is killed for a lock.
package struct GroupContainer {
    let path: String
    /// The paths of files in it, except the database's own, and of no folders.
    package let files: [String]
    /// Whether there are more files than are listed.
    let isCut: Bool
    /// The folders that could not be read.
    let unreadable: [String]

    /// A limit of the time that a container of many files takes.
    package static let most = 10_000

    /// - parameter databasePath: without symbolic links.
    /// - returns: nil when the database lies in no such container.
    package init?(ofDatabaseAt databasePath: String, most: Int = Self.most) {
        guard let path = AppContainer.groupOnIOS(holding: databasePath) else { return nil }
        var unreadable: [String] = []
        let names = FileManager.default.enumerator(
            at: URL(fileURLWithPath: path, isDirectory: true),
            includingPropertiesForKeys: [.isDirectoryKey]
        ) { folder, _ in
            unreadable.append(folder.path)
            return true
        }
        var files: [String] = []
        while files.count <= most, let url = names?.nextObject() as? URL {
            let isFolder = try? url.resourceValues(forKeys: [.isDirectoryKey]).isDirectory
            if isFolder == true { continue }
            if url.path != databasePath { files.append(url.path) }
        }
        self.path = path
        self.unreadable = unreadable
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
}
