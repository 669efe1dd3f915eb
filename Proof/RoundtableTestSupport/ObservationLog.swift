import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A `DatabaseChange` that a peer was notified of, and what the peer could read then.
package struct ObservedChange: Codable, Sendable, Equatable {
    package var sequence: UInt64
    /// The highest row of the table `entry`, read after the notification; -1 when the read failed.
    package var readable: Int
    package var detail: String
    /// The pid of the writer; 0 if it is not known.
    package var pid: Int32
    /// The author; empty if it is not known.
    package var author: String
    /// The changed tables; `*` if any table may have changed.
    package var tables: [String]
    package var isOwn: Bool
    /// The time when the read had ended.
    package var time: Nanoseconds

    package init(
        sequence: UInt64,
        readable: Int,
        detail: String,
        pid: Int32,
        author: String,
        tables: [String],
        isOwn: Bool,
        time: Nanoseconds
    ) {
        self.sequence = sequence
        self.readable = readable
        self.detail = detail
        self.pid = pid
        self.author = author
        self.tables = tables
        self.isOwn = isOwn
        self.time = time
    }
}

/// A value of a peer's `ValueObservation` of the highest row of the table `entry`.
package struct ObservedValue: Codable, Sendable, Equatable {
    package var lastRow: Int
    package var time: Nanoseconds

    package init(lastRow: Int, time: Nanoseconds) {
        self.lastRow = lastRow
        self.time = time
    }
}

/// The notifications of an observing peer, one on each line, in a file that survives the peer. Any thread may append.
package final class ObservationLog: Sendable {
    /// One line.
    package enum Entry: Codable, Sendable, Equatable {
        case change(ObservedChange)
        case value(ObservedValue)
        case error(String)
    }

    private let descriptor: Int32

    package init(writingAt path: String) throws {
        descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o666)
        try check(descriptor, "open \(path)")
    }

    deinit { close(descriptor) }

    package func append(_ change: ObservedChange) { append(.change(change)) }
    package func append(_ value: ObservedValue) { append(.value(value)) }
    package func append(error: String) { append(.error(error)) }

    private func append(_ entry: Entry) {
        guard var line = try? JSONEncoder().encode(entry) else { preconditionFailure("an entry is always JSON") }
        line.append(UInt8(ascii: "\n"))
        // A single call of `write` keeps the lines of several threads apart.
        _ = line.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    }
}

/// Follows the log of a peer from another process. Only one thread at a time may use it.
package final class ObservationLogReader {
    package private(set) var changes: [ObservedChange] = []
    package private(set) var values: [ObservedValue] = []
    package private(set) var errors: [String] = []
    private let path: String
    private var offset: UInt64 = 0

    package init(path: String) { self.path = path }

    /// Reads the lines that were appended since the last call.
    package func update() throws {
        guard let file = FileHandle(forReadingAtPath: path) else { return }
        defer { try? file.close() }
        try file.seek(toOffset: offset)
        guard let data = try file.readToEnd(), let end = data.lastIndex(of: UInt8(ascii: "\n")) else { return }
        let lines = data[...end]
        offset += UInt64(lines.count)
        let decoder = JSONDecoder()
        for line in lines.split(separator: UInt8(ascii: "\n")) {
            switch try decoder.decode(ObservationLog.Entry.self, from: Data(line)) {
            case .change(let change): changes.append(change)
            case .value(let value): values.append(value)
            case .error(let error): errors.append(error)
            }
        }
    }
}
