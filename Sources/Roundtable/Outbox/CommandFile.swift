import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A command as it lies in a file (rule X2).
struct CommandFile: Equatable, Sendable {
    var id: UUID
    var kind: OutboxCommandKind
    var sender: String
    /// ns since 1970.
    var time: UInt64
    var payload: Data

    var date: Date { Date(timeIntervalSince1970: Double(time) / 1e9) }

    /// Beyond this, a file is no command, whatever it says.
    static let maximumSize = 256 << 20
    static let headerSize = 128
    /// Of files beyond this, the header is looked at before all is read: whatever lies there, it must not take the owner's memory.
    private static let largeSize = 4 << 20
    static let format: UInt32 = 1
    private static let magic = [UInt8]("RTCMND\r\n".utf8)

    /// What a file holds.
    enum Content: Equatable {
        case command(CommandFile)
        /// Whole, as far as can be told, and made by a newer version of Roundtable.
        case newer(format: UInt32)
        /// - isCutOff: as far as it goes, it may be a command: one that is being copied, perhaps.
        case damaged(reason: String, isCutOff: Bool = false)
    }

    // MARK: Writing

    var bytes: [UInt8] {
        var body = [UInt8](kind.name.utf8)
        body += sender.utf8
        body += payload
        var header = ByteWriter()
        header.append(Self.magic)
        header.append(Self.format)
        header.append(UInt32(Self.headerSize))
        header.append(id.bytes)
        header.append(UInt64(kind.version))
        header.append(time)
        header.append(UInt32(kind.name.utf8.count))
        header.append(UInt32(sender.utf8.count))
        header.append(UInt64(payload.count))
        header.append(Checksum.fnv1a(body))
        header.append([UInt8](repeating: 0, count: 120 - header.bytes.count))
        header.append(Checksum.fnv1a(header.bytes))
        return header.bytes + body
    }

    // MARK: Reading

    static func content(of bytes: [UInt8]) -> Content {
        let header: Header
        switch judge(bytes, size: bytes.count) {
        case .isHeader(let found): header = found
        case .isNone(let content): return content
        }
        guard bytes[72..<120].allSatisfy({ $0 == 0 }), Checksum.fnv1a(bytes[headerSize...]) == header.checksum else {
            return .damaged(reason: "the checksum is wrong")
        }
        var reader = ByteReader(bytes, at: headerSize)
        guard let version = Int(exactly: header.version), let id = header.id,
            let name = String(validating: reader.bytes(header.nameLength), as: UTF8.self),
            let sender = String(validating: reader.bytes(header.senderLength), as: UTF8.self)
        else { return .damaged(reason: "impossible names") }
        let payload = Data(reader.bytes(header.payloadLength))
        let kind = OutboxCommandKind(name: name, version: version)
        return .command(CommandFile(id: id, kind: kind, sender: sender, time: header.time, payload: payload))
    }

    private struct Header {
        let id: UUID?
        let version: UInt64
        let time: UInt64
        let nameLength: Int
        let senderLength: Int
        let payloadLength: Int
        let checksum: UInt64
    }

    private enum Judgement {
        /// Of a file that has the lengths that it tells of.
        case isHeader(Header)
        case isNone(Content)

        static func damaged(_ reason: String, isCutOff: Bool = false) -> Self {
            .isNone(.damaged(reason: reason, isCutOff: isCutOff))
        }
    }

    /// What the first bytes of a file of this size are.
    private static func judge(_ bytes: [UInt8], size: Int) -> Judgement {
        guard size <= maximumSize else { return .damaged("larger than any command") }
        guard bytes.count >= headerSize else {
            let isCutOff = magic.starts(with: bytes.prefix(magic.count))
            return .damaged("cut off: \(bytes.count) bytes", isCutOff: isCutOff)
        }
        var reader = ByteReader(bytes)
        guard reader.bytes(8) == magic else { return .damaged("not a command: other first bytes") }
        var seal = ByteReader(bytes, at: 120)
        guard Checksum.fnv1a(bytes[..<120]) == seal.integer(UInt64.self) else {
            return .damaged("the header's checksum is wrong")
        }
        let format = reader.integer(UInt32.self)
        guard format <= Self.format else { return .isNone(.newer(format: format)) }
        guard format == Self.format, reader.integer(UInt32.self) == headerSize else {
            return .damaged("impossible header")
        }
        let id = UUID(bytes: reader.bytes(16))
        let version = reader.integer(UInt64.self)
        let time = reader.integer(UInt64.self)
        let nameLength = Int(reader.integer(UInt32.self))
        let senderLength = Int(reader.integer(UInt32.self))
        let payloadLength = reader.integer(UInt64.self)
        let (length, overflow) = payloadLength.addingReportingOverflow(UInt64(nameLength + senderLength))
        let rest = UInt64(size - headerSize)
        guard !overflow, length == rest else {
            return .damaged("\(size) bytes, and the header tells of other lengths", isCutOff: overflow || length > rest)
        }
        return .isHeader(
            Header(
                id: id,
                version: version,
                time: time,
                nameLength: nameLength,
                senderLength: senderLength,
                payloadLength: Int(payloadLength),
                checksum: reader.integer(UInt64.self)
            )
        )
    }

    /// What lies under a name among the commands; nil when there is nothing any more.
    ///
    /// - parameter database: that the outbox may lie beside.
    static func read(_ name: CommandFileName, in commands: OpenFolder, notOf database: String?) throws -> Content? {
        let content: Content
        do {
            guard let found = try read("\(name)", in: commands, notOf: database) else { return nil }
            content = found
        } catch let error as SystemError where error.call == .read && error.isNoFile {
            // A folder, a pipe, a link, wherever it leads.
            return .damaged(reason: "not a file")
        } catch is LockedFileError {
            return .damaged(reason: "a second name of a file of the database")
        }
        if case .command(let command) = content, command.sender != name.sender {
            return .damaged(reason: "submitted by '\(command.sender)', and named as if by '\(name.sender)'")
        }
        return content
    }

    /// What lies under a name in a folder of the outbox; nil when there is nothing any more.
    ///
    /// - throws: `SystemError`, `LockedFileError`.
    static func read(_ name: String, in folder: OpenFolder, notOf database: String?) throws -> Content? {
        if let status = try? folder.status(ofFile: name), status.isRegularFile, status.st_size > largeSize,
            let bytes = try folder.contents(ofFile: name, limit: headerSize, notOf: database),
            case .isNone(let content) = judge(bytes, size: Int(status.st_size))
        {
            return content
        }
        return try folder.contents(ofFile: name, limit: maximumSize, notOf: database).map(content(of:))
    }
}

extension Date {
    /// ns, as far as they can be told: of what a file says, too.
    var nanosecondsSince1970: UInt64 {
        let time = (timeIntervalSince1970 * 1e9).rounded(.down)
        return UInt64(exactly: time) ?? (time > 0 ? .max : 0)
    }
}

// MARK: - Bytes

/// Little-endian integers, one after the other.
struct ByteWriter {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ more: [UInt8]) { bytes += more }
    mutating func append(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.littleEndian) { bytes += $0 }
    }
}

/// For those who know that there is enough to read.
struct ByteReader {
    private let source: [UInt8]
    private var position: Int

    init(_ source: [UInt8], at position: Int = 0) {
        (self.source, self.position) = (source, position)
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { position += count }
        return Array(source[position..<position + count])
    }

    mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type) -> Value {
        defer { position += MemoryLayout<Value>.size }
        return source.withUnsafeBytes {
            Value(littleEndian: $0.loadUnaligned(fromByteOffset: position, as: Value.self))
        }
    }
}

extension UUID {
    var bytes: [UInt8] { withUnsafeBytes(of: uuid) { Array($0) } }

    init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.init(
            uuid: bytes.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }
        )
    }
}
