import Foundation

/// Hands the lines of a recording to each page, from the first to the last.
struct RecordedEvents: EventSource {
    let path: String
    private static let mostBytes = 1 << 30

    /// - throws: `InspectorError` when there is no recording at that path.
    init(path: String) throws {
        self.path = path
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
        let (overrun, continuation) = AsyncStream<Never>.makeStream()
        let path = path
        let reader = LineReader(path: path)
        let chunks = AsyncThrowingStream<String, any Error>(unfolding: { reader?.next() })
        return EventStream(chunks, overrun: overrun) { continuation.finish() }
    }
}

/// Reads a recording in pieces of whole lines, as the page asks for them. An incomplete last line is left out.
private final class LineReader: @unchecked Sendable {
    // @unchecked is correct because only one task, that of the connection, calls `next`.
    private let file: FileHandle
    private var rest = Data()
    private var hasBegun = false
    private var hasEnded = false

    init?(path: String) {
        guard let file = FileHandle(forReadingAtPath: path) else { return nil }
        self.file = file
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
