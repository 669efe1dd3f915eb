import Foundation
import GRDB
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The rows of a result, in the order in which they were appended.
///
/// The transaction ends before anything is printed, because a pager may wait for hours. So all rows are kept until then: in memory, and from
/// `memory` bytes on in a temporary file without a name, which the system removes with the process.
final class StoredRows {
    /// How many bytes of rows are in memory at most, except that a row is never split.
    static let memory = 4 << 20

    let columnCount: Int
    private(set) var count = 0
    var isEmpty: Bool { count == 0 }

    /// The rows that are not in the file yet: for each its length, and then its values.
    private var buffer: [UInt8] = []
    private var file: TemporaryFile?

    /// For tests.
    var bytesInMemory: Int { buffer.count }
    var bytesInFile: UInt64 { file?.size ?? 0 }

    init(columnCount: Int) { self.columnCount = columnCount }

    /// - throws: `ToolError` when the temporary file cannot be created or written.
    func append(_ row: some Sequence<DatabaseValue>) throws {
        let start = buffer.count
        buffer.append(integer: 0)
        for value in row { buffer.append(value) }
        buffer.replaceSubrange(start..<start + 8, with: (buffer.count - start - 8).bytes)
        count += 1
        guard buffer.count >= Self.memory else { return }
        if file == nil { file = try TemporaryFile() }
        try file?.append(buffer)
        buffer.removeAll(keepingCapacity: true)
    }

    /// - throws: what `body` throws, and `ToolError` when the temporary file cannot be read.
    func forEach(_ body: ([DatabaseValue]) throws -> Void) throws {
        var window: [UInt8] = []
        var position = 0
        try file?.read { part in
            window.removeFirst(position)
            position = 0
            window += part
            while let row = window.row(at: &position, columnCount) { try body(row) }
        }
        position = 0
        while let row = buffer.row(at: &position, columnCount) { try body(row) }
    }
}

/// A file that has no name, in the folder that SQLite would use for temporary files (<https://www.sqlite.org/tempfiles.html>).
private final class TemporaryFile {
    private static let part = 256 << 10

    private let folder: String
    private let file: FileHandle
    private(set) var size: UInt64 = 0

    init() throws {
        let variables = ProcessInfo.processInfo.environment
        let folders = [variables["SQLITE_TMPDIR"], variables["TMPDIR"], "/var/tmp", "/tmp"].compactMap(\.self)
        var problem = ""
        for folder in folders where !folder.isEmpty {
            var name = Array("\(folder)/roundtable-sql-XXXXXX".utf8CString)
            let descriptor = mkstemp(&name)
            guard descriptor != -1 else {
                if problem.isEmpty { problem = "\(folder): \(String(cString: strerror(errno)))" }
                continue
            }
            unlink(name)
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            self.folder = folder
            file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
            return
        }
        throw Self.error(problem)
    }

    func append(_ bytes: [UInt8]) throws {
        do {
            try file.seek(toOffset: size)
            try file.write(contentsOf: Data(bytes))
            size += UInt64(bytes.count)
        } catch {
            throw Self.error("\(folder): \((error as NSError).reason)")
        }
    }

    /// Calls `body` with the parts of the content, in their order.
    func read(_ body: (Data) throws -> Void) throws {
        var offset: UInt64 = 0
        while offset < size {
            let data: Data
            do {
                // `body` may append to another file, but not to this one, so the position is still where the last part ended.
                try file.seek(toOffset: offset)
                data = try file.read(upToCount: Int(min(UInt64(Self.part), size - offset))) ?? Data()
            } catch {
                throw Self.error("\(folder): \((error as NSError).reason)")
            }
            guard !data.isEmpty else { throw Self.error("\(folder): the file ended early") }
            offset += UInt64(data.count)
            try body(data)
        }
    }

    private static func error(_ problem: String) -> ToolError {
        ToolError(
            """
            the result has more than \(StoredRows.memory >> 20) MiB, and cannot be kept in a temporary file: \(problem). Set SQLITE_TMPDIR \
            to a folder with room, or select fewer rows.
            """
        )
    }
}

extension NSError {
    /// The system's own words, such as `No space left on device`.
    fileprivate var reason: String {
        let posix = domain == NSPOSIXErrorDomain ? self : userInfo[NSUnderlyingErrorKey] as? NSError
        guard let posix, posix.domain == NSPOSIXErrorDomain else { return localizedDescription }
        return String(cString: strerror(Int32(posix.code)))
    }
}

// MARK: - Encoding

/// The kind of a value, which is before it.
private enum Kind: UInt8 { case null, integer, real, text, blob }

extension Int {
    fileprivate var bytes: [UInt8] { withUnsafeBytes(of: Int64(self)) { Array($0) } }
}

extension [UInt8] {
    fileprivate mutating func append(integer: Int64) {
        Swift.withUnsafeBytes(of: integer) { append(contentsOf: $0) }
    }

    fileprivate mutating func append(_ value: DatabaseValue) {
        switch value.storage {
        case .null: append(Kind.null.rawValue)
        case .int64(let integer):
            append(Kind.integer.rawValue)
            append(integer: integer)
        case .double(let real):
            append(Kind.real.rawValue)
            append(integer: Int64(bitPattern: real.bitPattern))
        case .string(let text):
            append(Kind.text.rawValue)
            append(integer: Int64(text.utf8.count))
            append(contentsOf: text.utf8)
        case .blob(let data):
            append(Kind.blob.rawValue)
            append(integer: Int64(data.count))
            append(contentsOf: data)
        }
    }

    /// The row at a position, which is moved behind it; nil when it is not there completely.
    fileprivate func row(at position: inout Int, _ columnCount: Int) -> [DatabaseValue]? {
        guard count - position >= 8 else { return nil }
        var next = position
        let length = integer(at: &next)
        guard count - next >= length else { return nil }
        let row = (0..<columnCount).map { _ in value(at: &next) }
        position = next
        return row
    }

    private func integer(at position: inout Int) -> Int64 {
        defer { position += 8 }
        return withUnsafeBytes { $0.loadUnaligned(fromByteOffset: position, as: Int64.self) }
    }

    private func value(at position: inout Int) -> DatabaseValue {
        position += 1
        // The kinds are those that `append` has written.
        switch Kind(rawValue: self[position - 1])! {
        case .null: return .null
        case .integer: return integer(at: &position).databaseValue
        case .real: return Double(bitPattern: UInt64(bitPattern: integer(at: &position))).databaseValue
        case .text: return String(decoding: bytes(at: &position), as: UTF8.self).databaseValue
        case .blob: return Data(bytes(at: &position)).databaseValue
        }
    }

    private func bytes(at position: inout Int) -> ArraySlice<UInt8> {
        let length = Int(integer(at: &position))
        defer { position += length }
        return self[position..<position + length]
    }
}
