import Foundation

/// A folder that is removed with its content by `remove()`, or when the last reference is released.
package final class TemporaryFolder: Sendable {
    package let url: URL

    /// - parameter inMemory: whether to use a file system in memory, where the system has one. It is for tests that must not
    ///   measure the disk.
    package init(inMemory: Bool = false) throws {
        let name = "roundtable-\(ProcessInfo.processInfo.processIdentifier)-\(UInt64.random(in: 0...UInt64.max))"
        let memory = "/dev/shm"
        let parent =
            inMemory && FileManager.default.isWritableFile(atPath: memory)
            ? URL(fileURLWithPath: memory, isDirectory: true) : FileManager.default.temporaryDirectory
        url = parent.appendingPathComponent(name, isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// An existing folder.
    package init(_ path: String) { url = URL(fileURLWithPath: path) }

    deinit { remove() }

    package func file(_ name: String) -> URL { url.appendingPathComponent(name) }

    package func remove() {
        try? FileManager.default.removeItem(at: url)
    }
}

/// The content of a folder, used to find out whether anything was written.
///
/// It reads the files of databases. Create it only while the calling process has none of these databases open (rule G5).
package struct FolderContents: Equatable {
    private let files: [String: Data?]

    /// - parameter ignored: the suffixes of file names that are left out.
    package init(of folder: URL, ignoring ignored: [String] = []) throws {
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            .filter { name in !ignored.contains { name.hasSuffix($0) } }
        files = Dictionary(
            uniqueKeysWithValues: names.map { ($0, try? Data(contentsOf: folder.appendingPathComponent($0))) }
        )
    }

    /// The names of the files that differ.
    package func differences(from other: FolderContents) -> [String] {
        Set(files.keys).union(other.files.keys).filter { files[$0] != other.files[$0] }.sorted()
    }
}
