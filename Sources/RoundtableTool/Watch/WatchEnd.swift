import Dispatch
import Foundation
import Synchronization

/// The end of a `watch`: the first reason that somebody has for it.
final class WatchEnd: Sendable {
    enum Reason: Sendable {
        /// As many changes as were asked for.
        case enough
        case signal(Int32)
        /// Nobody reads standard output any more.
        case unread
        /// Standard output takes no more.
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

    /// A closed pipe shows at the next write only, which may never come: a thread sleeps until the pipe is closed.
    func reachWhenUnread() {
        Thread.detachNewThread { [self] in
            var request = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            while poll(&request, 1, -1) == -1, errno == EINTR || errno == EAGAIN {}
            reach(.unread)
        }
    }
}
