import Synchronization

/// Something that follows the accesses of a database, such as a meter. Without one, an access loads one word.
package final class Hook<Follower: Sendable>: Sendable {
    private let isOn = Atomic(false)
    private let follower = Mutex<Follower?>(nil)

    /// Sets what follows accesses that begin later; nil: nothing.
    package func set(_ follower: Follower?) {
        self.follower.withLock { $0 = follower }
        isOn.store(follower != nil, ordering: .releasing)
    }

    package var current: Follower? {
        isOn.load(ordering: .relaxed) ? follower.withLock { $0 } : nil
    }
}
