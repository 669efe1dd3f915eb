import Synchronization

/// A request that workers end: they claim no more jobs, and the handlers that run get some time (rule A13).
package final class JobStop: Sendable {
    private struct State {
        var isRequested = false
        var followers: [@Sendable () -> Void] = []
    }

    /// How long handlers may run before their tasks are cancelled.
    package let grace: Duration
    /// How long cancelled handlers may take to end before their jobs are released.
    package let cancelGrace: Duration
    /// How long each of the writes may take that release the jobs and remove the worker.
    var releaseLimit: Duration { max(cancelGrace, .seconds(1)) }
    private let state = Mutex(State())

    package init(grace: Duration, cancelGrace: Duration) {
        self.grace = grace
        self.cancelGrace = cancelGrace
    }

    /// Safe to call more than once, in any thread.
    package func request() {
        let followers = state.withLock { state in
            state.isRequested = true
            defer { state.followers = [] }
            return state.followers
        }
        for follower in followers { follower() }
    }

    /// Calls `body` at the request, or immediately if it was made before.
    func follow(_ body: @escaping @Sendable () -> Void) {
        let isRequested = state.withLock { state in
            if !state.isRequested { state.followers.append(body) }
            return state.isRequested
        }
        if isRequested { body() }
    }
}
