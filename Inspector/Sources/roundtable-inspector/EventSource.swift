import Hummingbird

/// Where the events of the page come from.
protocol EventSource: Sendable {
    /// - returns: nil when there are too many subscribers.
    func subscribe() -> EventStream?
}

/// The events for one page, as server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
struct EventStream: Sendable {
    let body: ResponseBody

    /// - Parameters:
    ///   - chunks: texts that `text(_:)` has made.
    ///   - overrun: ends when the reader is too slow. The connection is then closed, also while a write waits for the reader.
    ///   - ended: called once, when nothing more is sent.
    init(
        _ chunks: AsyncThrowingStream<String, any Error>,
        overrun: AsyncStream<Never>,
        ended: @escaping @Sendable () -> Void
    ) {
        body = ResponseBody { writer in
            defer { ended() }
            // The group needs a writer that it can send to a task.
            nonisolated(unsafe) var local = writer
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for try await chunk in chunks {
                        try Task.checkCancellation()
                        try await local.write(ByteBuffer(string: chunk))
                    }
                }
                group.addTask {
                    for await _ in overrun {}
                    throw CancellationError()
                }
                defer { group.cancelAll() }
                try await group.next()
            }
            try await writer.finish(nil)
        }
    }

    /// The first event: whether a recording follows, which is sent whole, or what happens now.
    static func opening(isRecording: Bool) -> String {
        "retry: 1000\n\n" + text(#"{"kind":"source","is_recording":\#(isRecording)}"#)
    }

    /// A line as an event. It has no line break in it.
    static func text(_ line: some StringProtocol) -> String { "data: \(line)\n\n" }
}
