import Foundation
import RoundtableKernel

/// The folder where SQLite puts temporary files, of VACUUM, of an index that is built, of a sort that is larger than its memory
/// (<https://www.sqlite.org/tempfiles.html#temporary_file_storage_locations>).
enum TemporaryFileFolder {
    static let usual = "/var/tmp"

    /// nil when SQLite finds none.
    static var path: String? {
        let environment = ProcessInfo.processInfo.environment
        let candidates = [environment["SQLITE_TMPDIR"], environment["TMPDIR"], usual, "/usr/tmp", "/tmp", "."]
        return candidates.compactMap { $0 }.first {
            System.mayWrite($0) && (try? System.status(ofFileAt: $0))?.isFolder == true
        }
    }

    /// What to do about `SQLITE_FULL`, which does not say whether the folder of the database or the one of temporary files is full.
    /// SQLite has deleted the temporary file by now, so the one with less space is taken for the one that was full.
    static func advice(databasePath: String) -> String {
        let folder = (databasePath as NSString).deletingLastPathComponent
        guard let path, let temporary = Space(of: path), let own = Space(of: folder), temporary.device != own.device,
            temporary.free < own.free
        else { return "free space there, and try again" }
        return """
            the folder of SQLite's temporary files, \(path), has \(temporary.text) free, the database's \(own.text): free space in \
            \(path), or name a larger folder in the environment variable SQLITE_TMPDIR, and try again
            """
    }

    private struct Space {
        let device: UInt64
        let free: Int

        init?(of folder: String) {
            guard let device = (try? System.identity(ofFileAt: folder))?.device,
                let attributes = try? FileManager.default.attributesOfFileSystem(forPath: folder),
                let free = (attributes[.systemFreeSize] as? NSNumber)?.intValue
            else { return nil }
            (self.device, self.free) = (device, free)
        }

        var text: String { String(format: "%.1f MB", Double(free) / 1e6) }
    }
}
