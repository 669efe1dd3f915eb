import Synchronization

/// Something that follows the accesses of a database, such as a meter. Without one, an access loads one word.
package final class Hook<Follower: Sendable>: Sendable {
    /// A follower, as an object: an optional reference costs an access less than an optional existential.
    package final class Following: Sendable {
        package let follower: Follower

        init(_ follower: Follower) { self.follower = follower }
    }

    private let isOn = Atomic(false)
    /// A `Following`. Swift's runtime needs some thousand instructions to free a mutex of a generic type.
    private let following = Mutex<(any AnyObject & Sendable)?>(nil)

    /// Sets what follows accesses that begin later; nil: nothing.
    package func set(_ follower: Follower?) {
        following.withLock { $0 = follower.map(Following.init) }
        isOn.store(follower != nil, ordering: .releasing)
    }

    package var current: Following? {
        isOn.load(ordering: .relaxed) ? following.withLock { $0 as? Following } : nil
    }
}
