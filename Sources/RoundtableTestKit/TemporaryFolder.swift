import Foundation

/// A folder that is removed, with all that is in it, by `remove()` or with its last reference.
package final class TemporaryFolder {
    package let url: URL

    /// - parameter inMemory: on a file system without a disk behind it, where there is one, for tests that measure
    ///   something else than the disk.
    package init(inMemory: Bool = false) throws {
        let name = "roundtable-\(ProcessInfo.processInfo.processIdentifier)-\(UInt64.random(in: 0...UInt64.max))"
        let memory = "/dev/shm"
        let parent =
            inMemory && FileManager.default.isWritableFile(atPath: memory)
            ? URL(fileURLWithPath: memory, isDirectory: true) : FileManager.default.temporaryDirectory
        url = parent.appendingPathComponent(name, isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { remove() }

    package func remove() {
        try? FileManager.default.removeItem(at: url)
    }
}

/// What a folder holds: to tell whether anything was written.
///
/// Reads files of databases: take it only while the calling process has none of them open (rule G5).
package struct FolderContents: Equatable {
    private let files: [String: Data?]

    /// - parameter ignored: the ends of names that are left out.
    package init(of folder: URL, ignoring ignored: [String] = []) throws {
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            .filter { name in !ignored.contains { name.hasSuffix($0) } }
        files = Dictionary(
            uniqueKeysWithValues: names.map { ($0, try? Data(contentsOf: folder.appendingPathComponent($0))) }
        )
    }

    /// The names of what differs.
    package func differences(from other: FolderContents) -> [String] {
        Set(files.keys).union(other.files.keys).filter { files[$0] != other.files[$0] }.sorted()
    }
}
