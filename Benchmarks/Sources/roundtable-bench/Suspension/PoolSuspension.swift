#if os(Linux)
    import Foundation
    import GRDB
    import RoundtableTestKit
    import Synchronization

    /// How a careful app uses GRDB's suspension notifications. Without assertions: they are posted at the notice. With them:
    /// each write has one, so the system waits for the running write; its end posts the notification, or the
    /// expiry of the assertion does.
    final class PoolSuspension: Sendable {
        private struct State {
            var writes = 0
            var isPending = false
            var isPosted = false
        }

        private let state = Mutex(State())
        private let subject = Mutex<SuspensionSubject?>(nil)

        func connect(_ subject: SuspensionSubject?) { self.subject.withLock { $0 = subject } }

        func handle(_ event: SuspensionSubject.Event) {
            switch event {
            case .suspending: suspendUnlessWriting()
            case .expiring: suspend()
            case .resumed:
                state.withLock { state in
                    state.isPending = false
                    state.isPosted = false
                }
                NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
            }
        }

        /// Writes without one when it is refused.
        func withAssertion(_ write: () throws -> Void) throws {
            let assertion = subject.withLock { $0 }?.begin("write")
            defer { assertion?.end() }
            guard assertion != nil else { return try write() }
            state.withLock { $0.writes += 1 }
            defer {
                let suspends = state.withLock { state in
                    state.writes -= 1
                    return state.isPending && state.writes == 0
                }
                if suspends { suspend() }
            }
            try write()
        }

        private func suspendUnlessWriting() {
            let suspends = state.withLock { state in
                state.isPending = true
                return state.writes == 0
            }
            if suspends { suspend() }
        }

        private func suspend() {
            let isFirst = state.withLock { state in
                defer { state.isPosted = true }
                return !state.isPosted
            }
            guard isFirst else { return }
            NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
            subject.withLock { $0 }?.answer()
        }
    }
#endif
