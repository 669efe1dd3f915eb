#if os(Linux)
    import Foundation
    import Roundtable
    import Synchronization

    /// Gives Roundtable the police's assertions in place of the system's.
    ///
    /// ``SuspensionSubject/connectSharedDatabases(environment:takingAssertions:onEvent:onSuspension:)`` installs them.
    public final class PoliceAssertions: SuspensionAssertions {
        private typealias Expiry = @Sendable (Duration) -> Void

        private struct State {
            var nextID = 0
            /// The expiry handlers of assertions that are held or in request.
            var expiries: [Int: Expiry] = [:]
            var asking: Set<Int> = []
            /// Assertions that expired before ``begin(_:onExpiry:)`` received the grant, with the time that was left.
            var early: [Int: Duration] = [:]
        }

        private let subject: @Sendable () -> SuspensionSubject?
        private let state = Mutex(State())

        /// - parameter subject: returns the connection to the police; while it returns nil, every request is refused.
        init(_ subject: @escaping @Sendable () -> SuspensionSubject?) { self.subject = subject }

        public func begin(
            _ name: String,
            onExpiry: @escaping @Sendable (Duration) -> Void
        ) -> (any SuspensionAssertion)? {
            let id = state.withLock { state in
                defer { state.nextID += 1 }
                state.expiries[state.nextID] = onExpiry
                state.asking.insert(state.nextID)
                return state.nextID
            }
            let granted = subject()?.begin(name)
            let early = state.withLock { state in
                state.asking.remove(id)
                if granted == nil { state.expiries[id] = nil }
                return state.early.removeValue(forKey: id)
            }
            guard let granted else { return nil }
            if let early, let onExpiry = forget(id) { Self.call(onExpiry, early) }
            return Held(id: id, assertion: granted, assertions: self)
        }

        /// Calls the expiry handlers of all assertions, and does not wait for them to return.
        func expire(in left: Duration) {
            let expired = state.withLock { state in
                for id in state.asking { state.early[id] = left }
                let expired = state.expiries.filter { !state.asking.contains($0.key) }
                for id in expired.keys { state.expiries[id] = nil }
                return Array(expired.values)
            }
            for onExpiry in expired { Self.call(onExpiry, left) }
        }

        private func forget(_ id: Int) -> Expiry? { state.withLock { $0.expiries.removeValue(forKey: id) } }

        /// Calls the handler in its own thread, because it may block and must not delay the other handlers.
        private static func call(_ onExpiry: @escaping Expiry, _ left: Duration) {
            Thread.detachNewThread { onExpiry(left) }
        }

        private final class Held: SuspensionAssertion {
            private let id: Int
            private let assertion: SuspensionSubject.Assertion
            private let assertions: PoliceAssertions

            init(id: Int, assertion: SuspensionSubject.Assertion, assertions: PoliceAssertions) {
                self.id = id
                self.assertion = assertion
                self.assertions = assertions
            }

            deinit { end() }

            func end() {
                _ = assertions.forget(id)
                assertion.end()
            }
        }
    }
#endif
