import Foundation
import Roundtable
import RoundtableKernel
import Synchronization

#if os(Linux)
    import Glibc
#endif

/// What peers do without in `make test-ios-mode`, as on Apple's systems: they do not see each other, they have no locks that prove life, and the
/// system refuses their assertions at random.
package enum AppleConditions {
    /// The number in `ROUNDTABLE_IOS_MODE` is the seed of the random choices.
    private static let seed = ProcessInfo.processInfo.environment["ROUNDTABLE_IOS_MODE"].map { UInt64($0) ?? 1 }
    /// Whether the system also takes assertions back. This closes the gates for a while, so tests that measure do without.
    private static let takesBack = ProcessInfo.processInfo.environment["ROUNDTABLE_IOS_EXPIRIES"] == "1"

    package static var areOn: Bool { seed != nil }

    /// The faults that stay, whatever a test injects. A sandbox says that it forbids to ask a living process, and shows a dead one.
    package static var faults: [Fault] {
        #if os(Linux)
            if seed != nil {
                return [
                    .hiding(.kill, errno: EPERM), Fault(.readProcess, errno: EPERM), Fault(.fcntl, errno: ENOTSUP),
                ]
            }
        #endif
        return []
    }

    /// Begins them in this process.
    package static func begin() {
        #if os(Linux)
            Device.begin()
        #endif
        guard let seed else { return }
        System.inject(faults)
        SharedDatabase.suspensionAssertions = FickleAssertions(seed: seed &+ UInt64(getpid()), takesBack)
    }
}

/// Assertions of which one in eight is refused, and perhaps another one expires within 50 ms.
private final class FickleAssertions: SuspensionAssertions {
    private struct Assertion: SuspensionAssertion {
        func end() {}
    }

    private let generator: Mutex<SeededGenerator>
    private let takesBack: Bool

    init(seed: UInt64, _ takesBack: Bool) {
        generator = Mutex(SeededGenerator(seed: seed))
        self.takesBack = takesBack
    }

    func begin(
        _ name: String,
        onExpiry: @escaping @Sendable (Duration) -> Void
    ) -> (any SuspensionAssertion)? {
        let (fate, milliseconds) = generator.withLock { generator in
            (Int.random(in: 0..<8, using: &generator), Int.random(in: 0..<50, using: &generator))
        }
        if fate == 0 { return nil }
        if fate == 1, takesBack {
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) { onExpiry(.seconds(20)) }
        }
        return Assertion()
    }
}
