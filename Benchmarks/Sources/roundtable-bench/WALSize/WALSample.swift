import Foundation
import Roundtable

/// The WAL at one moment, seen from outside.
struct WALSample {
    /// Since the beginning of the trial.
    var time: Nanoseconds
    /// Those of committed transactions; nil when the wal-index could not be read at that moment.
    var frames: Int?
    /// Of the file.
    var bytes: Int
}

/// Looks at a database without taking part. Its process has no connection of its own to it, which looking from outside rests on.
struct WALOnlooker {
    let path: String
    let start: Nanoseconds

    /// - returns: the WAL, and who holds it as it is and is not running, as ``SharedDatabase`` tells it.
    func look() throws -> (sample: WALSample, status: DatabaseStatus?) {
        let status = try? DatabaseStatus(ofDatabaseAt: URL(fileURLWithPath: path))
        let now = Clock.now
        let sample = WALSample(
            time: now > start ? now - start : 0,
            frames: status?.wal?.committedFrames,
            bytes: try Self.fileSize(path + "-wal")
        )
        return (sample, status)
    }

    private static func fileSize(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return (attributes[.size] as? Int) ?? 0
    }
}
