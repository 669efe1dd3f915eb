import Dispatch
import Synchronization

/// The values of a snapshot file, as they are replaced. See ``SnapshotFile/values()``.
public struct SnapshotValues<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = SnapshotReading<Value>
    public typealias Failure = Never

    let file: SnapshotFile<Value>

    public func makeAsyncIterator() -> Iterator { Iterator(file) }

    public struct Iterator: AsyncIteratorProtocol {
        private let file: SnapshotFile<Value>
        private let changes: SnapshotChanges

        init(_ file: SnapshotFile<Value>) {
            self.file = file
            changes = SnapshotChanges(of: file.store)
        }

        /// What the file holds, the first time; then what it holds when that is something else. nil when the task is cancelled.
        public mutating func next() async -> SnapshotReading<Value>? {
            guard await changes.next() else { return nil }
            do {
                return file.reading(of: try changes.contents())
            } catch {
                return .damaged(.unreadable(error))
            }
        }
    }
}

/// Waits until a snapshot file holds something else. For one consumer.
package final class SnapshotChanges: Sendable {
    private struct Sight: Equatable {
        let mark: SnapshotMark
        /// What is overwritten in its place may have a whole header before it has a whole value.
        let size: Int64?
    }
    private struct State {
        /// What the consumer knows of.
        var last: Sight?
        /// Listens from the first call on.
        var listening: FolderNews.Listening?
        var willLookAgain = false
    }
    private let store: SnapshotStore
    private let signal = NewsSignal()
    private let state = Mutex(State())

    package init(of store: SnapshotStore) { self.store = store }

    /// - returns: false when the task is cancelled. The first time, it is true at once.
    package func next() async -> Bool {
        startListening()
        while !Task.isCancelled {
            let sight = Sight(mark: store.mark(), size: store.size)
            let isNew = state.withLock { state in
                defer { state.last = sight }
                return state.last != sight
            }
            if isNew { return true }
            if store.isLink {
                lookAgain(in: .milliseconds(250))
            } else if case .unreadable = sight.mark {
                lookAgain(in: .seconds(1))
            }
            if await !signal.wait() { break }
        }
        // Nobody tells of a cancelled task that its iterator is there for a while yet.
        let listening = state.withLock { state in
            defer { state.listening = nil }
            return state.listening
        }
        withExtendedLifetime(listening) {}
        return false
    }

    /// What the file holds. It may be newer than what `next` has seen, and is not told again.
    package func contents() throws(SnapshotFileError) -> SnapshotContents {
        let contents = try store.contents()
        switch contents {
        case .whole(let header, let value):
            let size = Int64(SnapshotHeader.size + value.count)
            state.withLock { $0.last = Sight(mark: .whole(header), size: size) }
        case .absent: state.withLock { $0.last = Sight(mark: .absent, size: nil) }
        case .damaged, .newerFormat: break
        }
        return contents
    }

    private func startListening() {
        guard !store.path.isEmpty, state.withLock({ $0.listening == nil }) else { return }
        let listening = FolderNews.listen(to: store.folder) { [signal] in signal.raise() }
        state.withLock { $0.listening = listening }
    }

    /// That a file can be read again is not told by its folder, nor what happens to the file that a symbolic link leads to.
    private func lookAgain(in time: DispatchTimeInterval) {
        let isNext = state.withLock { state in
            defer { state.willLookAgain = true }
            return !state.willLookAgain
        }
        guard isNext else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + time) { [weak self] in
            guard let self else { return }
            state.withLock { $0.willLookAgain = false }
            signal.raise()
        }
    }
}

/// Wakes one task; raised before it waits, it does not sleep.
private final class NewsSignal: Sendable {
    private enum State {
        case idle, raised
        case waiting(CheckedContinuation<Bool, Never>)
    }
    private let state = Mutex(State.idle)

    func raise() { settle(.raised)?.resume(returning: true) }

    /// - returns: false when the task is cancelled.
    func wait() async -> Bool {
        let isRaised = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isRaised, earlier) = state.withLock { state in
                    switch state {
                    case .raised:
                        state = .idle
                        return (true, CheckedContinuation<Bool, Never>?.none)
                    case .idle:
                        state = .waiting(continuation)
                        return (false, nil)
                    case .waiting(let earlier):
                        state = .waiting(continuation)
                        return (false, earlier)
                    }
                }
                // For one consumer: a second one takes its place.
                earlier?.resume(returning: true)
                if isRaised { continuation.resume(returning: true) }
            }
        } onCancel: {
            raise()
        }
        return isRaised && !Task.isCancelled
    }

    private func settle(_ next: State) -> CheckedContinuation<Bool, Never>? {
        state.withLock { state in
            if case .waiting(let continuation) = state {
                state = .idle
                return continuation
            }
            state = next
            return nil
        }
    }
}
