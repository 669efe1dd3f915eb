import Foundation
import RoundtableKernel
import Synchronization

/// Tells those who wait for files of a folder that something in it has changed, or that its path leads elsewhere (rule V6): one thread and one
/// watch a folder, for all of the process, while somebody waits.
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
    /// Ends a pause of a folder that cannot be watched.
    private let ending = DispatchSemaphore(value: 0)

    private init(_ folder: String) { self.folder = folder }

    /// - parameter body: called on the thread that watches: it must be quick. It may come without a reason.
    /// - returns: what ends the calls when it is released.
    static func listen(to folder: String, _ body: @escaping @Sendable () -> Void) -> Listening {
        let (news, id, isNew) = all.withLock { all in
            let existing = all[folder]
            let news = existing ?? FolderNews(folder)
            all[folder] = news
            return (news, news.add(body), existing == nil)
        }
        if isNew { Thread.detachNewThread { news.run() } }
        return Listening { news.remove(id) }
    }

    final class Listening: Sendable {
        private let end: @Sendable () -> Void
        fileprivate init(_ end: @escaping @Sendable () -> Void) { self.end = end }
        deinit { end() }
    }

    /// How many listen, for tests.
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
                // The thread is the one that lets go of it: that takes the system up to tens of milliseconds.
                if state.hasEnded { state.watch?.interrupt() }
                return state.hasEnded
            }
            guard hasEnded else { return }
            all[folder] = nil
            ending.signal()
        }
    }

    // MARK: On the thread

    private func run() {
        while let watch = watchOrPause() {
            // What has come before the watch was made is not told by it.
            tell()
            watchAsLongAsPossible(watch)
            state.withLock { $0.watch = nil }
        }
    }

    /// - returns: nil when nobody listens any more.
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
            if ending.wait(timeout: .now() + .nanoseconds(Int(Self.pause))) == .success { return nil }
            tell()
        }
    }

    /// For what no watch tells.
    private static let pause: Nanoseconds = 250_000_000

    private struct Watched {
        let watch: FolderWatch
        let folder: FileIdentity
        /// The path leads there by symbolic links. They may come to lead elsewhere, which a watch, which is on the folder itself, does not tell.
        let isBehindLinks: Bool
    }

    private func make() -> Watched? {
        // The folder may be another one by the time it is watched: its identity is asked for before.
        let wasBehindLinks = isBehindLinks
        guard let identity = try? System.identity(ofFileAt: folder),
            let watch = try? FolderWatch([folder], includingRemovals: true)
        else { return nil }
        return Watched(watch: watch, folder: identity, isBehindLinks: wasBehindLinks || isBehindLinks)
    }

    private var isBehindLinks: Bool {
        guard let target = System.target(ofPath: folder) else { return false }
        // Apple's systems have such links at the root, which stay.
        return target != folder && target != "/private" + folder
    }

    /// Until the folder is another one, or cannot be watched any more, or nobody listens.
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
