import Foundation
import RoundtableFiles
import RoundtableKernel

/// The bytes of a whole snapshot file, whatever its value is (rule Z11).
struct SnapshotCopy {
    let bytes: [UInt8]
    /// The checksum of the header.
    let sum: UInt64

    /// The largest snapshot file that travels, in bytes.
    private static let limit = 64 << 20

    /// - returns: nil when there is no whole snapshot file.
    init?(at path: String) throws { self.init(try System.contents(ofFileAt: path, limit: Self.limit)) }

    /// What was downloaded as an object.
    init?(_ object: String, in arrivals: StagingFolder) throws {
        self.init(try arrivals.contents(ofFileAt: object, limit: Self.limit))
    }

    private init?(_ bytes: [UInt8]?) {
        guard let bytes else { return nil }
        guard case .whole = SnapshotContents(bytes, limit: Self.limit) else { return nil }
        self.bytes = bytes
        var reader = ByteReader(bytes, at: SnapshotHeader.size - 8)
        sum = reader.integer(UInt64.self)
    }

    /// Replaces a file by this one (rules V2, V10).
    func put(at path: String) throws {
        let store = SnapshotStore(
            URL(fileURLWithPath: path),
            version: 0,
            writer: "ship",
            options: SnapshotFileOptions()
        )
        try store.replace(with: bytes)
    }
}
