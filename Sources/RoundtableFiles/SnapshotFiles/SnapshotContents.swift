import RoundtableKernel

/// What a snapshot file holds, before the value is decoded (rule V5).
package enum SnapshotContents: Sendable {
    case absent
    /// The file is not a snapshot file, or not a whole one. The header is given if it is whole.
    case damaged(SnapshotDamage, SnapshotHeader?)
    /// The file has a format that this library does not know.
    case newerFormat(SnapshotHeader)
    case whole(SnapshotHeader, ArraySlice<UInt8>)

    /// - Parameters:
    ///   - bytes: the bytes of the file, or enough of them to exceed the limit.
    ///   - limit: the most bytes that a value may have.
    package init(_ bytes: [UInt8], limit: Int) {
        guard !bytes.isEmpty else {
            self = .damaged(.empty, nil)
            return
        }
        let magic = SnapshotHeader.magic
        guard bytes.prefix(magic.count).elementsEqual(magic.prefix(bytes.count)) else {
            self = .damaged(.foreign, nil)
            return
        }
        guard bytes.count >= SnapshotHeader.size else {
            self = .damaged(.truncated(byteCount: bytes.count, expected: UInt64(SnapshotHeader.size)), nil)
            return
        }
        guard let header = SnapshotHeader(bytes) else {
            self = .damaged(.header, nil)
            return
        }
        guard header.format == SnapshotHeader.format else {
            self = .newerFormat(header)
            return
        }
        let value = bytes.dropFirst(SnapshotHeader.size)
        if let damage = Self.damage(of: value, header, limit: limit) {
            self = .damaged(damage, header)
        } else {
            self = .whole(header, value)
        }
    }

    private static func damage(of value: ArraySlice<UInt8>, _ header: SnapshotHeader, limit: Int) -> SnapshotDamage? {
        if value.count > limit { return .tooLarge(limit: limit) }
        let count = UInt64(value.count)
        if count < header.length {
            let size = UInt64(SnapshotHeader.size)
            return .truncated(
                byteCount: value.count + SnapshotHeader.size,
                expected: header.length.addingSaturating(size)
            )
        }
        if count > header.length { return .trailingBytes(count: Int(count - header.length)) }
        return Checksum.fnv1a(value) == header.checksum ? nil : .value
    }
}

/// Identifies the value in a file. Two marks are compared to detect a new value.
package enum SnapshotMark: Equatable, Sendable {
    case absent
    case whole(SnapshotHeader)
    /// The file has no valid header.
    case other(FileIdentity, size: Int64, modified: Int64)
    /// The file cannot be read.
    case unreadable(SnapshotFileError)
}

/// What a writer saw in the file before it fetched a new value.
package struct SnapshotLook: Sendable {
    package let mark: SnapshotMark
    /// Distinguishes this look from one with the same mark: see `SnapshotStore.settlements`.
    package let settlements: UInt64
}
