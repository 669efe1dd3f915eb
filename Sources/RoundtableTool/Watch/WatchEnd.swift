import Dispatch
import Foundation
import Synchronization

/// The end of a `watch`, with the first reason for it.
final class WatchEnd: Sendable {
    enum Reason: Sendable {
        /// The requested number of changes is reached.
        case enough
        case signal(Int32)
        /// The reader of standard output has closed the pipe.
        case unread
        /// Standard output cannot be written.
        case unwritable(any Error)
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
        Thread.detachNewThread { [self] in
            var request = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            while poll(&request, 1, -1) == -1, errno == EINTR || errno == EAGAIN {}
            reach(.unread)
        }
    }
}
