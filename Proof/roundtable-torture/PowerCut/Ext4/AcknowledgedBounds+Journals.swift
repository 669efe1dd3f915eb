import Foundation
import RoundtableTestSupport

extension AcknowledgedBounds {
    /// Adds what victims have noted in their journals, which lie on another file system.
    mutating func add(journalsIn folder: URL) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        where name.hasSuffix(".journal") {
            let bytes = [UInt8](try Data(contentsOf: folder.appendingPathComponent(name)))
            // Each note is one write(2), so only whole ones are there.
            for start in stride(from: 0, to: bytes.count / 16 * 16, by: 16) {
                let words = bytes.withUnsafeBytes { bytes in
                    (0..<2).map { bytes.loadUnaligned(fromByteOffset: start + $0 * 8, as: UInt64.self) }
                }
                guard let kind = Acknowledgement.Kind(rawValue: words[0]) else {
                    throw TestKitError("\(name): unknown acknowledgement \(words[0])")
                }
                acknowledge(Acknowledgement(kind: kind, number: words[1]))
            }
        }
    }

    /// What must be there after the next power cut, once all that was there has been checked, and a participant has closed the database as
    /// the last one, which checkpoints.
    ///
    /// - Parameters:
    ///   - commits: the number of commits.
    ///   - snapshot: the number that was written to both snapshot files.
    func settled(commits: UInt64, snapshot: UInt64) -> AcknowledgedBounds {
        var bounds = AcknowledgedBounds()
        bounds.acknowledge(Acknowledgement(kind: .commit, number: commits))
        bounds.acknowledge(Acknowledgement(kind: .checkpoint, number: commits))
        bounds.acknowledge(Acknowledgement(kind: .snapshot, number: snapshot))
        bounds.acknowledge(Acknowledgement(kind: .unsyncedSnapshot, number: snapshot))
        for command in UInt64(0)..<64 where commands >> command & 1 == 1 {
            bounds.acknowledge(Acknowledgement(kind: .command, number: command))
        }
        return bounds
    }
}
