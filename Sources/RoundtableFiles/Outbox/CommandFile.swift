import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A command as it is stored in a file (rule X2).
package struct CommandFile: Equatable, Sendable {
    package var id: UUID
    package var kind: OutboxCommandKind
    package var sender: String
    /// When the command was submitted, in ns since 1970.
    package var time: UInt64
    package var payload: Data

    package var date: Date { Date(timeIntervalSince1970: Double(time) / 1e9) }

    package init(id: UUID, kind: OutboxCommandKind, sender: String, time: UInt64, payload: Data) {
        (self.id, self.kind, self.sender, self.time, self.payload) = (id, kind, sender, time, payload)
    }

    /// The largest size of a command's file, in bytes. A larger file is no command, whatever it holds.
    package static let maximumSize = 256 << 20
    package static let headerSize = 128
    /// The size, in bytes, above which the header is read before the rest, so that no file exhausts the owner's memory.
    private static let largeSize = 4 << 20
    package static let format: UInt32 = 1
    private static let magic = [UInt8]("RTCMND\r\n".utf8)

    /// What a file holds.
    package enum Content: Equatable {
        case command(CommandFile)
        /// The file is whole, as far as this version can check, and was made by a newer version of Roundtable.
        case newer(format: UInt32)
        /// The file is not a whole command. If `isCutOff`, it may be the beginning of one, for example of a file that is being copied.
        case damaged(reason: String, isCutOff: Bool = false)
    }

    // MARK: Writing

    package var bytes: [UInt8] {
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

    package static func content(of bytes: [UInt8]) -> Content {
        let header: Header
        switch judge(bytes, size: bytes.count) {
        case .isHeader(let found): header = found
        case .isNone(let content): return content
        }
        guard bytes[72..<120].allSatisfy({ $0 == 0 }), Checksum.fnv1a(bytes[headerSize...]) == header.checksum else {
            return .damaged(reason: "the checksum is wrong")
        }
        var reader = ByteReader(bytes, at: headerSize)
        guard let version = Int(exactly: header.version),
            let name = String(validating: reader.bytes(header.nameLength), as: UTF8.self),
            let sender = String(validating: reader.bytes(header.senderLength), as: UTF8.self)
        else { return .damaged(reason: "impossible names") }
        let payload = Data(reader.bytes(header.payloadLength))
        let kind = OutboxCommandKind(name: name, version: version)
        return .command(CommandFile(id: header.id, kind: kind, sender: sender, time: header.time, payload: payload))
    }

    private struct Header {
        let id: UUID
        let version: UInt64
        let time: UInt64
        let nameLength: Int
        let senderLength: Int
        let payloadLength: Int
        let checksum: UInt64
    }

    private enum Judgement {
        /// The header is valid, and its lengths match the size of the file.
        case isHeader(Header)
        /// The file holds something other than a command of this format.
        case isNone(Content)

        static func damaged(_ reason: String, isCutOff: Bool = false) -> Self {
            .isNone(.damaged(reason: reason, isCutOff: isCutOff))
        }
    }

    /// Examines the first bytes of a file of this size.
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
            return .damaged("\(size) bytes, and the header states other lengths", isCutOff: overflow || length > rest)
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

    /// Reads a file in `commands`; nil when it does not exist any more.
    ///
    /// - parameter database: the database that the outbox may lie beside.
    package static func read(_ name: CommandFileName, in commands: OpenFolder, notOf database: String?) throws
        -> Content?
    {
        let content: Content
        do {
            guard let found = try read("\(name)", in: commands, notOf: database) else { return nil }
            content = found
        } catch let error as SystemError where error.call == .read && error.isMissingFile {
            // The name is that of a folder, a pipe or a symbolic link.
            return .damaged(reason: "not a file")
        } catch is LockedFileError {
            return .damaged(reason: "a second name of a file of the database")
        }
        if case .command(let command) = content, command.sender != name.sender {
            return .damaged(reason: "submitted by '\(command.sender)', and named as if by '\(name.sender)'")
        }
        return content
    }

    /// Reads a file in a folder of the outbox; nil when it does not exist any more.
    ///
    /// - throws: `SystemError`, `LockedFileError`.
    package static func read(_ name: String, in folder: OpenFolder, notOf database: String?) throws -> Content? {
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
    /// The time in ns since 1970, limited to what fits, because a date that was read from a file may be any.
    package var nanosecondsSince1970: UInt64 {
        let time = (timeIntervalSince1970 * 1e9).rounded(.down)
        return UInt64(exactly: time) ?? (time > 0 ? .max : 0)
    }
}

extension UUID {
    fileprivate var bytes: [UInt8] { withUnsafeBytes(of: uuid) { Array($0) } }

    /// - parameter bytes: 16.
    fileprivate init(bytes: [UInt8]) { self.init(uuid: bytes.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }) }
}
