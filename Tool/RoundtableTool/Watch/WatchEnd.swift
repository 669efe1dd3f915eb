import Dispatch
import Foundation
import RoundtableKernel
import RoundtableToolSupport
import Synchronization

/// The end of a `watch`, or of a history that is followed, with the first reason for it.
final class WatchEnd: Sendable {
    enum Reason: Sendable {
        /// The requested number of changes is reached.
        case enough
        case signal(Int32)
        /// The reader of standard output has closed the pipe.
        case unread
        /// Standard output cannot be written.
        case unwritable(any Error)
        /// The path leads to another file than the database that is watched, or to none.
        case gone
    }

    /// The error for `Reason.gone`.
    ///
    /// - parameter next: the sentence that says what to do next.
    static func goneError(_ path: String, next: String) -> ToolError {
        ToolError(
            "\(path): the database was deleted, moved away or replaced, and nothing more is committed to what was watched. \(next)"
        )
    }

    private let reason = Mutex<Reason?>(nil)
    private let isReached = DispatchSemaphore(value: 0)

    func reach(_ new: Reason) {
        let isFirst = reason.withLock { reason in
            defer { reason = reason ?? new }
            return reason == nil
        }
        if isFirst { isReached.signal() }
    }

    /// - returns: nil when the deadline has passed.
    func wait(until deadline: DispatchTime) -> Reason? {
        _ = isReached.wait(timeout: deadline)
        return reason.withLock { $0 }
    }

    /// Starts a thread that sleeps until the pipe of standard output is closed. Otherwise, only the next write would detect that, and there
    /// may be none.
    func reachWhenUnread() {
        DetachedThread.startOrQueue { [self] in
            var request = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            while poll(&request, 1, -1) == -1, errno == EINTR || errno == EAGAIN {}
            reach(.unread)
        }
    }

    /// Starts a thread that sleeps until the database at `path` is not the file `identity` any more. The observation itself would wait for ever: it
    /// stays with the old file, to which no program commits.
    func reachWhenGone(path: String, identity: FileIdentity) {
        let folder = (path as NSString).deletingLastPathComponent
        DetachedThread.startOrQueue { [self] in
            // The watch is made before the check, so that no change in between is missed.
            while let watch = try? FolderWatch([folder], includingRemovals: true) {
                repeat {
                    guard (try? System.identity(ofFileAt: path)) == identity else { return reach(.gone) }
                } while (try? watch.wait()) == .changed
            }
            // The folder is gone, or cannot be watched. In the latter case, the end of the database is not noticed.
            if (try? System.identity(ofFileAt: path)) != identity { reach(.gone) }
        }
    }
}
