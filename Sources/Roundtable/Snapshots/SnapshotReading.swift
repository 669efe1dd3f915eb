import Foundation

/// What ``SnapshotFile/read()`` finds.
public enum SnapshotReading<Value> {
    /// There is no file: nothing was published yet, or it was removed.
    case absent
    /// A newer version of the program has written it, or one with a newer version of this library.
    case tooNew(SnapshotInfo)
    /// An older version of the program has written it than this one accepts.
    case tooOld(SnapshotInfo)
    /// There is a file, and no whole value in it.
    case damaged(SnapshotDamage)
    case value(Value, SnapshotInfo)

    /// The value, if there is one.
    public var value: Value? {
        if case .value(let value, _) = self { return value }
        return nil
    }

    /// What is known of the value; nil where there is none, or a damaged one.
    public var info: SnapshotInfo? {
        switch self {
        case .absent, .damaged: nil
        case .tooNew(let info), .tooOld(let info), .value(_, let info): info
        }
    }
}

extension SnapshotReading: Sendable where Value: Sendable {}
extension SnapshotReading: Equatable where Value: Equatable {}

extension SnapshotReading: CustomStringConvertible {
    public var description: String {
        switch self {
        case .absent: "absent"
        case .tooNew(let info): "too new: \(info)"
        case .tooOld(let info): "too old: \(info)"
        case .damaged(let damage): "damaged: \(damage)"
        case .value(let value, let info): "\(value) (\(info))"
        }
    }
}

/// What a snapshot file tells of its value.
public struct SnapshotInfo: Sendable, Equatable {
    /// The version that the writer has given: the program's own number.
    public let version: Int
    /// Counts up from 1 with each write. Two processes that write at the same moment may give the same; after a file was removed, it
    /// may begin anew.
    public let sequence: UInt64
    /// When it was written.
    public let date: Date
    /// The name of the writer (`as:`), at most 48 bytes of it.
    public let writer: String
    /// The size of the encoded value.
    public let byteCount: Int
    /// The writer's, which two that write at once do not share.
    let token: UInt64

    init(_ header: SnapshotHeader) {
        version = Int(clamping: header.version)
        sequence = header.sequence
        date = Date(timeIntervalSince1970: Double(header.time) / 1e9)
        writer = header.writer
        byteCount = Int(clamping: header.length)
        token = header.token
    }
}

extension SnapshotInfo: CustomStringConvertible {
    public var description: String {
        let time = date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        return "version \(version), number \(sequence), written by \(writer) at \(time), \(byteCount) bytes"
    }
}

/// Why a file holds no whole value.
public enum SnapshotDamage: Sendable, Equatable {
    /// No byte at all: somebody made the file, and nothing of it was ever synced.
    case empty
    /// Not a snapshot file.
    case foreign
    /// It ends too early.
    case truncated(byteCount: Int, expected: UInt64)
    /// Something follows the value.
    case trailingBytes(count: Int)
    /// The header is not what was written.
    case header
    /// The value is not what was written.
    case value
    /// The value has more bytes than this process reads (``SnapshotFileOptions/maximumSize``).
    case tooLarge(limit: Int)
    /// The bytes are those that were written, and cannot be decoded.
    case undecodable(String)
    /// In ``SnapshotFile/values()`` only, where ``SnapshotFile/read()`` would throw this. It is looked at again every second.
    case unreadable(SnapshotFileError)
}

extension SnapshotDamage: CustomStringConvertible {
    public var description: String {
        switch self {
        case .empty: "it is empty"
        case .foreign: "it is not a snapshot file"
        case .truncated(let count, let expected): "it is cut off: \(count) of \(expected) bytes are there"
        case .trailingBytes(let count):
            "\(count) byte\(count == 1 ? "" : "s") too many follow\(count == 1 ? "s" : "") the value"
        case .header: "its header has changed since it was written"
        case .value: "its value has changed since it was written"
        case .tooLarge(let limit): "its value has more than \(limit) bytes, the most that this process reads"
        case .undecodable(let reason): "its value cannot be decoded: \(reason)"
        case .unreadable(let error): "it cannot be read: \(error.problem)"
        }
    }
}
