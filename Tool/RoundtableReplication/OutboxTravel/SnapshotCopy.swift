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

    /// - parameter followsLinks: whether the file, its folder and the folder above that may be symbolic links.
    /// - returns: nil when there is no whole snapshot file.
    init?(at path: String, followsLinks: Bool) throws {
        self.init(try Self.store(path, followsLinks: followsLinks).bytes())
    }

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

    /// Replaces a file by this one (rules V2, V10), without following a link.
    func put(at path: String) throws { try Self.store(path, followsLinks: false).replace(with: bytes) }

    private static func store(_ path: String, followsLinks: Bool) -> SnapshotStore {
        var options = SnapshotFileOptions()
        options.maximumSize = limit
        options.followsLinks = followsLinks
        return SnapshotStore(URL(fileURLWithPath: path), version: 0, writer: "ship", options: options)
    }
}
