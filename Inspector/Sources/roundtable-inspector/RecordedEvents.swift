import Foundation
import Synchronization

/// Hands the lines of a recording to each page, from the first to the last.
struct RecordedEvents: EventSource {
    let path: String
    private let readers = Readers()
    private static let mostBytes = 1 << 30

    /// - throws: `InspectorError` when there is no recording at that path.
    init(path: String) throws {
        self.path = path
        var status = stat()
        // Opening a pipe would wait for its writer.
        if stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            throw InspectorError("\(path): is no file. 'roundtable record PATH -o FILE' makes one.")
        }
        guard let file = FileHandle(forReadingAtPath: path) else {
            throw InspectorError("\(path): cannot be opened. Check the path, and the permissions of the file.")
        }
        defer { try? file.close() }
        let start = String(decoding: (try? file.read(upToCount: 512)) ?? Data(), as: UTF8.self)
        guard start.hasPrefix("{"), start.contains(#""kind":"recording""#) else {
            throw InspectorError("\(path): is no recording. 'roundtable record PATH -o FILE' makes one.")
        }
        guard let size = try? file.seekToEnd(), size <= Self.mostBytes else {
            throw InspectorError("\(path): is larger than 1 GiB. Record with a smaller --keep.")
        }
    }

    func subscribe() -> EventStream? {
        guard let place = readers.enter() else { return nil }
        let (overrun, continuation) = AsyncStream<Never>.makeStream()
        let reader = LineReader(path: path, place: place)
        let chunks = AsyncThrowingStream<String, any Error>(unfolding: { reader?.next() })
        return EventStream(chunks, overrun: overrun) { continuation.finish() }
    }
}

/// The pages that read the recording at the same time. Each keeps a piece of it in memory.
private final class Readers: Sendable {
    private static let most = 32
    private let count = Mutex(0)

    /// - returns: a place, which is free again when the object is gone; nil when none is free.
    func enter() -> Place? {
        let isFree = count.withLock { count in
            guard count < Self.most else { return false }
            count += 1
            return true
        }
        return isFree ? Place(self) : nil
    }

    final class Place: Sendable {
        private let readers: Readers
        fileprivate init(_ readers: Readers) { self.readers = readers }
        deinit { readers.count.withLock { $0 -= 1 } }
    }
}

/// Reads a recording in pieces of whole lines, as the page asks for them. An incomplete last line is left out.
private final class LineReader: @unchecked Sendable {
    // @unchecked is correct because only one task, that of the connection, calls `next`.
    private let file: FileHandle
    private let place: Readers.Place
    private var rest = Data()
    private var hasBegun = false
    private var hasEnded = false

    init?(path: String, place: Readers.Place) {
        guard let file = FileHandle(forReadingAtPath: path) else { return nil }
        (self.file, self.place) = (file, place)
    }

    deinit { try? file.close() }

    /// - returns: events; nil at the end.
    func next() -> String? {
        if !hasBegun {
            hasBegun = true
            return EventStream.opening(isRecording: true)
        }
        while !hasEnded {
            let piece = (try? file.read(upToCount: 1 << 18)) ?? Data()
            if piece.isEmpty { break }
            rest.append(piece)
            guard let end = rest.lastIndex(of: UInt8(ascii: "\n")) else { continue }
            let text = String(decoding: rest[rest.startIndex..<end], as: UTF8.self)
            rest = Data(rest[(end + 1)...])
            return text.split(separator: "\n").map { EventStream.text($0) }.joined()
        }
        if hasEnded { return nil }
        hasEnded = true
        return EventStream.text(#"{"kind":"end"}"#)
    }
}
