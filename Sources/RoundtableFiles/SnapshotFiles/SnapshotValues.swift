import RoundtableKernel
import Synchronization

/// An asynchronous sequence of the values of a snapshot file. See ``SnapshotFile/values()``.
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

        /// Returns what the file holds: immediately on the first call, and after the file has changed on each later call. Returns nil
        /// when the task is cancelled.
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

// Rule V6: A reader that waits watches the folder, and those above it, for changes, moves and removals. Where it cannot, or where symbolic
// links lead to folder or file, it reads the header every 250 ms. It reports no value twice.

/// Waits until the contents of a snapshot file change. It serves one consumer.
package final class SnapshotChanges: Sendable {
    private struct Sight: Equatable {
        let mark: SnapshotMark
        /// The size of the file. A file that is overwritten in place may have a whole header before it has a whole value.
        let size: Int64?
    }
    private struct State {
        /// The state of the file that the consumer has seen last.
        var last: Sight?
        /// Set from the first call of `next()` until the task is cancelled.
        var listening: FolderNews.Listening?
        /// A cancelled task ends its wakes, and another task may continue.
        var wakes = TaskWakes()
    }
    private let store: SnapshotStore
    private let state = Mutex(State())

    package init(of store: SnapshotStore) { self.store = store }

    /// - returns: false when the task is cancelled. The first call returns true immediately.
    package func next() async -> Bool {
        let wakes = startListening()
        while !Task.isCancelled {
            let sight = Sight(mark: store.mark(), size: store.size)
            let isNew = state.withLock { state in
                defer { state.last = sight }
                return state.last != sight
            }
            if isNew { return true }
            // The watch of the folder does not report that a file has become readable, nor that the target of a symbolic link has changed.
            var pause: Duration?
            if store.isLink {
                pause = .milliseconds(250)
            } else if case .unreadable = sight.mark {
                pause = .seconds(1)
            }
            await wakes.next(until: pause.map { ContinuousClock.now + $0 })
        }
        // The iterator may outlive its cancelled task, so the listening ends here.
        let listening = state.withLock { state in
            defer { (state.listening, state.wakes) = (nil, TaskWakes()) }
            return state.listening
        }
        withExtendedLifetime(listening) {}
        return false
    }

    /// Reads the file. Its contents may be newer than those that `next()` has seen; `next()` does not report a value read here again.
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

    private func startListening() -> TaskWakes {
        let (isListening, wakes) = state.withLock { ($0.listening != nil, $0.wakes) }
        if store.path.isEmpty || isListening { return wakes }
        let listening = FolderNews.listen(to: store.folder) { wakes.wake() }
        state.withLock { $0.listening = listening }
        return wakes
    }
}
