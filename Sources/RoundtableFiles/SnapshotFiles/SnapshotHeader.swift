import Foundation
import RoundtableKernel

/// The first 128 bytes of a snapshot file (rule V1).
package struct SnapshotHeader: Equatable, Sendable {
    /// How the value is encoded.
    package enum Encoding: Equatable, Sendable {
        case json, propertyList
        /// The value is encoded by the program's own code, or by a newer version of this library.
        case other(UInt32)

        var number: UInt32 {
            switch self {
            case .json: 1
            case .propertyList: 2
            case .other(let number): number
            }
        }

        init(_ number: UInt32) {
            switch number {
            case 1: self = .json
            case 2: self = .propertyList
            default: self = .other(number)
            }
        }
    }

    package static let size = 128
    package static let format: UInt32 = 1
    static let magic = [UInt8]("RTSNAP\r\n".utf8)
    private static let nameSize = 48

    /// Whether a file with these first bytes is a snapshot file, possibly a damaged one: one of its first six bytes has changed, or a power
    /// cut has left zeros.
    static func mayBegin(_ bytes: some Collection<UInt8>) -> Bool {
        // The two bytes after the letters (CR, LF) are not compared, because they exist to be damaged by a conversion of line ends.
        let expected = magic.prefix(6)
        let differing = zip(bytes, expected).count { $0 != $1 }
        if differing <= (bytes.count < expected.count ? 0 : 1) { return true }
        return bytes.prefix(size).allSatisfy { $0 == 0 }
    }

    package var format = Self.format
    package var version: UInt64
    package var sequence: UInt64
    /// The token and the sequence together identify a value.
    package var token: UInt64
    /// When the value was written, in ns since 1970.
    package var time: UInt64
    package var length: UInt64
    package var checksum: UInt64
    package var encoding: Encoding
    package var writer: String

    var bytes: [UInt8] {
        var header = ByteWriter()
        header.append(Self.magic)
        header.append(format)
        header.append(UInt32(Self.size))
        for word in [version, sequence, token, time, length, checksum] { header.append(word) }
        header.append(encoding.number)
        let name = Self.cut(writer)
        header.append(UInt32(name.count))
        header.append(name + [UInt8](repeating: 0, count: Self.nameSize - name.count))
        header.append(Checksum.fnv1a(header.bytes))
        return header.bytes
    }

    /// The characters of a name that fit into the header, in UTF-8.
    static func cut(_ name: String) -> [UInt8] {
        var bytes: [UInt8] = []
        for character in name {
            let next = Array(character.utf8)
            if bytes.count + next.count > nameSize { break }
            bytes += next
        }
        return bytes
    }

    /// - returns: nil when the bytes are not a whole header. A header of a newer format is read, because later formats keep these fields.
    init?(_ bytes: some RandomAccessCollection<UInt8>) {
        let bytes = Array(bytes.prefix(Self.size))
        guard bytes.count == Self.size, bytes.starts(with: Self.magic) else { return nil }
        var reader = ByteReader(bytes, at: Self.magic.count)
        format = reader.integer(UInt32.self)
        let headerSize = reader.integer(UInt32.self)
        version = reader.integer(UInt64.self)
        sequence = reader.integer(UInt64.self)
        token = reader.integer(UInt64.self)
        time = reader.integer(UInt64.self)
        length = reader.integer(UInt64.self)
        checksum = reader.integer(UInt64.self)
        encoding = Encoding(reader.integer(UInt32.self))
        let nameLength = Int(reader.integer(UInt32.self))
        let name = reader.bytes(Self.nameSize)
        writer = String(decoding: name.prefix(nameLength), as: UTF8.self)
        guard reader.integer(UInt64.self) == Checksum.fnv1a(bytes[..<120]),
            format > Self.format || (format == Self.format && headerSize == Self.size && nameLength <= Self.nameSize)
        else { return nil }
    }

    init(
        version: UInt64,
        sequence: UInt64,
        token: UInt64,
        value: [UInt8],
        encoding: Encoding,
        writer: String,
        time: UInt64 = Date().nanosecondsSince1970
    ) {
        self.version = version
        self.sequence = sequence
        self.token = token
        self.time = time
        length = UInt64(value.count)
        checksum = Checksum.fnv1a(value)
        self.encoding = encoding
        self.writer = writer
    }
}
