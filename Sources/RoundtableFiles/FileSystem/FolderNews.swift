import Foundation
import RoundtableKernel
import Synchronization

/// Notifies the listeners of a folder when something in the folder changes, or when its path leads to another folder (rule V6).
/// While a folder has listeners, this process has one thread and one watch for it.
final class FolderNews: Sendable {
    private static let all = Mutex<[String: FolderNews]>([:])

    private struct State {
        var listeners: [UInt64: @Sendable () -> Void] = [:]
        var nextID: UInt64 = 0
        var watch: FolderWatch?
        var hasEnded = false
    }
    private let folder: String
    private let state = Mutex(State())
    /// Signaled when the last listener leaves, to end the pause of a folder that cannot be watched.
    private let ending = MonotonicSemaphore()

    private init(_ folder: String) { self.folder = folder }

    /// - parameter body: called on the watching thread, so it must return quickly. It may be called although nothing has changed.
    /// - returns: an object that ends the calls when it is released.
    static func listen(to folder: String, _ body: @escaping @Sendable () -> Void) -> Listening {
        let (news, id, isNew) = all.withLock { all in
            let existing = all[folder]
            let news = existing ?? FolderNews(folder)
            all[folder] = news
            return (news, news.add(body), existing == nil)
        }
        if isNew { DetachedThread.startOrQueue { news.run() } }
        return Listening { news.remove(id) }
    }

    final class Listening: Sendable {
        private let end: @Sendable () -> Void
        fileprivate init(_ end: @escaping @Sendable () -> Void) { self.end = end }
        deinit { end() }
    }

    /// The number of listeners of a folder, for tests.
    static func count(of folder: String) -> Int {
        all.withLock { $0[folder]?.state.withLock { $0.listeners.count } ?? 0 }
    }

    private func add(_ body: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.nextID += 1
            state.listeners[state.nextID] = body
            return state.nextID
        }
    }

    private func remove(_ id: UInt64) {
        Self.all.withLock { all in
            let hasEnded = state.withLock { state in
                state.listeners[id] = nil
                state.hasEnded = state.listeners.isEmpty
                // The watch is only interrupted here. The thread releases it, because that can take tens of milliseconds.
                if state.hasEnded { state.watch?.interrupt() }
                return state.hasEnded
            }
            guard hasEnded else { return }
            all[folder] = nil
            ending.signal()
        }
    }

    // MARK: The watching thread

    private func run() {
        while let watch = watchOrPause() {
            // The watch does not report what changed before it was made.
            tell()
            watchAsLongAsPossible(watch)
            state.withLock { $0.watch = nil }
        }
    }

    /// - returns: nil when no listener is left.
    private func watchOrPause() -> Watched? {
        while true {
            if state.withLock({ $0.hasEnded }) { return nil }
            let made = make()
            let hasEnded = state.withLock { state in
                if !state.hasEnded { state.watch = made?.watch }
                return state.hasEnded
            }
            if hasEnded { return nil }
            if let made { return made }
            if ending.wait(upTo: Self.pause) { return nil }
            tell()
        }
    }

    /// The interval between checks for changes that no watch reports, in nanoseconds.
    private static let pause: Nanoseconds = 250_000_000

    private struct Watched {
        let watch: FolderWatch
        let folder: FileIdentity
        /// Whether the path leads to the folder through symbolic links. The watch is on the folder itself, so it does not report that such
        /// a link has changed.
        let isBehindLinks: Bool
    }

    private func make() -> Watched? {
        // The identity is read before the watch is made, because the path may lead to another folder by then.
        let wasBehindLinks = isBehindLinks
        guard let identity = try? System.identity(ofFileAt: folder),
            let watch = try? FolderWatch([folder], includingRemovals: true)
        else { return nil }
        return Watched(watch: watch, folder: identity, isBehindLinks: wasBehindLinks || isBehindLinks)
    }

    private var isBehindLinks: Bool {
        guard let target = System.target(ofPath: folder) else { return false }
        // On Apple's systems, some folders at the root are permanent links into `/private`.
        return target != folder && target != "/private" + folder
    }

    /// Notifies the listeners of changes until the path leads to another folder, the folder cannot be watched, or no listener is left.
    private func watchAsLongAsPossible(_ watch: Watched) {
        while true {
            switch try? watch.watch.wait(upTo: watch.isBehindLinks ? Self.pause : nil) {
            case .changed, .timedOut: tell()
            case .gone: return tell()
            case .interrupted, nil: return
            }
            if (try? System.identity(ofFileAt: folder)) != watch.folder { return }
        }
    }

    private func tell() {
        for body in state.withLock({ Array($0.listeners.values) }) { body() }
    }
}
