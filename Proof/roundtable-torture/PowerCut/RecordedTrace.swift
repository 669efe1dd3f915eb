import Foundation
import Glibc
import RoundtableTestSupport

/// What happened to the files below a folder, in order.
struct RecordedTrace {
    enum Event {
        case write(inode: UInt64, offset: Int, bytes: Range<Int>)
        case truncate(inode: UInt64, size: Int)
        case syncBegin(inode: UInt64, number: UInt64)
        case syncEnd(inode: UInt64, number: UInt64)
        case create(folder: UInt64, inode: UInt64, isFolder: Bool, name: String)
        case unlink(folder: UInt64, name: String)
        case rename(from: UInt64, name: String, to: UInt64, newName: String, inode: UInt64)
        case link(folder: UInt64, inode: UInt64, name: String)
        case acknowledge(Acknowledgement)
        /// A process mapped the file for writing. What it stores is not recorded.
        case mapped(inode: UInt64)
        /// A call that the model does not know.
        case unsupported(inode: UInt64, call: String)
        /// What a mapped file held at that moment.
        case sample(inode: UInt64, bytes: Range<Int>)
    }

    private static let magic: UInt64 = 0x5254_504F_5745_5231
    private static let headerSize = 64
    private static let recordSize = 40

    /// The whole log, into which the events' ranges point.
    let bytes: [UInt8]
    let events: [Event]
    let rootInode: UInt64

    static var emptyHeader: [UInt8] {
        var words = [UInt64](repeating: 0, count: headerSize / 8)
        words[0] = magic
        words[1] = UInt64(headerSize)
        return words.withUnsafeBytes { [UInt8]($0) }
    }

    init(contentsOf log: URL) throws {
        let file = try FileHandle(forReadingFrom: log)
        defer { try? file.close() }
        let header = [UInt8](try file.read(upToCount: Self.headerSize) ?? Data())
        guard header.count == Self.headerSize, Self.word(header, 0) == Self.magic else {
            throw TestKitError("\(log.path) is not a trace")
        }
        guard Self.word(header, 24) >> 32 == 0 else {
            throw TestKitError("a recorded process ended in the middle of a call, so the trace is not whole")
        }
        let end = Int(Self.word(header, 8))
        bytes = header + [UInt8](try file.read(upToCount: end - Self.headerSize) ?? Data())
        guard bytes.count == end else { throw TestKitError("\(log.path) is cut off") }
        rootInode = Self.word(header, 32)
        events = try Self.events(bytes)
    }

    func write(to url: URL) throws { try Data(bytes).write(to: url) }

    private static func word(_ bytes: [UInt8], _ offset: Int) -> UInt64 {
        bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
    }

    private static func events(_ bytes: [UInt8]) throws -> [Event] {
        var events: [Event] = []
        var next = headerSize
        while next < bytes.count {
            let sizeAndKind = word(bytes, next)
            let (inode, a, b) = (word(bytes, next + 8), word(bytes, next + 16), word(bytes, next + 24))
            let data = next + recordSize..<next + recordSize + Int(UInt32(truncatingIfNeeded: word(bytes, next + 32)))
            let text = { String(decoding: bytes[data], as: UTF8.self) }
            switch sizeAndKind >> 32 {
            case 1: events.append(.write(inode: inode, offset: Int(a), bytes: data))
            case 2: events.append(.truncate(inode: inode, size: Int(a)))
            case 3: events.append(.syncBegin(inode: inode, number: a))
            case 4: events.append(.syncEnd(inode: inode, number: a))
            case 5: events.append(.create(folder: inode, inode: a, isFolder: b == 1, name: text()))
            case 6: events.append(.unlink(folder: inode, name: text()))
            case 7:
                let names = text().split(separator: "\0").map(String.init)
                guard names.count == 2 else { throw TestKitError("a rename without two names") }
                events.append(.rename(from: b, name: names[0], to: inode, newName: names[1], inode: a))
            case 8: events.append(.link(folder: inode, inode: a, name: text()))
            case 9:
                guard let kind = Acknowledgement.Kind(rawValue: a) else {
                    throw TestKitError("unknown acknowledgement \(a)")
                }
                events.append(.acknowledge(Acknowledgement(kind: kind, number: b)))
            case 10: events.append(.mapped(inode: inode))
            case 11: events.append(.unsupported(inode: inode, call: text()))
            case 12: events.append(.sample(inode: inode, bytes: data))
            case let kind: throw TestKitError("unknown record \(kind) at \(next)")
            }
            next += Int(UInt32(truncatingIfNeeded: sizeAndKind))
        }
        return events
    }
}

/// What was reported to a program as stored.
struct Acknowledgement {
    enum Kind: UInt64 {
        case commit = 1
        case command
        case snapshot
        /// The last commit of a snapshot that a complete checkpoint has copied.
        case checkpoint
        /// The number in the snapshot file that is written without a sync: a power cut may lose it.
        case unsyncedSnapshot
    }
    var kind: Kind
    var number: UInt64
}
