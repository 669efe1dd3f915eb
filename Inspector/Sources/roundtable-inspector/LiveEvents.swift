import Foundation
import Synchronization

/// Hands the lines of the recorder to all pages that are open, and keeps those of the last minute for pages that open later.
///
/// A page that does not read costs a bounded amount of memory: when `mostWaiting` lines wait for it, its connection is closed. Its browser
/// connects again when it reads again, and gets the last minute.
final class LiveEvents: EventSource {
    private struct Subscriber {
        let chunks: AsyncThrowingStream<String, any Error>.Continuation
        let overrun: AsyncStream<Never>.Continuation
    }

    private struct Line {
        let arrived: Date
        let text: String
    }

    private struct State {
        var header: String?
        var lines: [Line] = []
        var bytes = 0
        var subscribers: [Int: Subscriber] = [:]
        var nextNumber = 0
    }

    private static let mostSubscribers = 32
    private static let mostWaiting = 256
    static let kept: TimeInterval = 90
    private static let mostBytes = 32 << 20

    private let state = Mutex(State())

    /// Accepts a line of the recorder.
    func add(_ line: String, isHeader: Bool = false) {
        let text = EventStream.text(line)
        send(text) { state in
            if isHeader {
                state.header = text
                state.lines = []
                state.bytes = 0
                return
            }
            state.lines.append(Line(arrived: Date(), text: text))
            state.bytes += text.utf8.count
            Self.trim(&state)
        }
    }

    /// Sends a comment, so that a connection whose page is gone is noticed even while the recorder says nothing.
    func keepAlive() { send(":\n\n") { _ in } }

    private func send(_ text: String, _ change: (inout State) -> Void) {
        state.withLock { state in
            change(&state)
            for (number, subscriber) in state.subscribers {
                if case .dropped = subscriber.chunks.yield(text) {
                    subscriber.overrun.finish()
                    state.subscribers[number] = nil
                }
            }
        }
    }

    /// The first lines are removed in large pieces, because each removal moves all others.
    private static func trim(_ state: inout State) {
        let limit = Date().addingTimeInterval(-kept)
        guard state.lines.count > 256, state.lines[255].arrived < limit || state.bytes > mostBytes else { return }
        for line in state.lines.prefix(256) { state.bytes -= line.text.utf8.count }
        state.lines.removeFirst(256)
    }

    func subscribe() -> EventStream? {
        state.withLock { state in
            guard state.subscribers.count < Self.mostSubscribers else { return nil }
            let number = state.nextNumber
            state.nextNumber += 1
            // The first chunk has all that was kept, and counts as one.
            let (chunks, continuation) = AsyncThrowingStream<String, any Error>.makeStream(
                bufferingPolicy: .bufferingOldest(Self.mostWaiting)
            )
            let (overrun, overrunContinuation) = AsyncStream<Never>.makeStream()
            let kept = [state.header ?? ""] + state.lines.map(\.text)
            continuation.yield(EventStream.opening(isRecording: false) + kept.joined())
            state.subscribers[number] = Subscriber(chunks: continuation, overrun: overrunContinuation)
            return EventStream(chunks, overrun: overrun) { [weak self] in self?.unsubscribe(number) }
        }
    }

    private func unsubscribe(_ number: Int) {
        let subscriber = state.withLock { $0.subscribers.removeValue(forKey: number) }
        subscriber?.chunks.finish()
        subscriber?.overrun.finish()
    }
}
