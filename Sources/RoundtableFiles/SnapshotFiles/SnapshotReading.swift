import Foundation

/// The result of ``SnapshotFile/read()``.
public enum SnapshotReading<Value> {
    /// There is no file: nothing was published yet, or it was removed.
    case absent
    /// The value was written by a newer version of the program, or by a program with a newer version of this library.
    case tooNew(SnapshotInfo)
    /// The value was written by an older version of the program than this process accepts.
    case tooOld(SnapshotInfo)
    /// The file exists, but holds no whole value.
    case damaged(SnapshotDamage)
    case value(Value, SnapshotInfo)

    /// The value, if there is one.
    public var value: Value? {
        if case .value(let value, _) = self { return value }
        return nil
    }

    /// What the file records about the value; nil if there is no value, or if it is damaged.
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

/// What a snapshot file records about its value.
public struct SnapshotInfo: Sendable, Equatable {
    /// The version that the writer gave to the value: the program's own number.
    public let version: Int
    /// A number that counts up from 1 with each write. Two processes that write at the same moment may use the same number. After the
    /// file was removed, the numbers may start again.
    public let sequence: UInt64
    /// When it was written.
    public let date: Date
    /// The name of the writer (`as:`), at most 48 bytes of it.
    public let writer: String
    /// The size of the encoded value, in bytes.
    package let byteCount: Int
    /// The random token of the writer. It differs between two writers that write at the same moment.
    package let token: UInt64

    package init(_ header: SnapshotHeader) {
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
    /// The file has no bytes: it was created, but its contents were never synced.
    case empty
    /// The file is not a snapshot file.
    case foreign
    /// The file is shorter than it has to be. Both numbers are in bytes.
    case truncated(byteCount: Int, expected: UInt64)
    /// Bytes follow the value.
    case trailingBytes(count: Int)
    /// The header has changed since it was written.
    case header
    /// The value has changed since it was written.
    case value
    /// The value has more bytes than this process reads (``SnapshotFileOptions/maximumSize``).
    case tooLarge(limit: Int)
    /// The bytes are intact, but cannot be decoded.
    case undecodable(String)
    /// The file cannot be read. Only ``SnapshotFile/values()`` returns this, where ``SnapshotFile/read()`` throws the error. The file is
    /// read again every second.
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
