#if os(Linux)
    import Foundation
    import RoundtableTestKit
    import Synchronization

    /// What becomes of the transaction that runs when the notice comes; and the wait of a writer for the end of the suspension.
    final class NoticeWatch: Sendable {
        private struct State {
            var isSuspended = false
            var noticed: Nanoseconds = 0
            var running: Int?
            var watched: Int?
        }

        private let state = Mutex(State())
        /// Signalled when the process is resumed.
        private let resumed = NSCondition()
        private let journal: SuspensionJournal

        let stalls: StallMeter

        init(_ journal: SuspensionJournal) {
            self.journal = journal
            stalls = StallMeter(journal)
        }

        func handle(_ event: SuspensionSubject.Event) {
            stalls.handle(event)
            switch event {
            case .suspending:
                state.withLock { state in
                    state.isSuspended = true
                    state.noticed = Clock.now
                    state.watched = state.running
                }
            case .expiring: break
            case .resumed:
                resumed.lock()
                state.withLock { $0.isSuspended = false }
                resumed.broadcast()
                resumed.unlock()
            }
        }

        /// A transaction has begun.
        func begin(_ sequence: Int) { state.withLock { $0.running = sequence } }

        func end(_ sequence: Int, _ error: (any Error)?) {
            let noticed: Nanoseconds? = state.withLock { state in
                state.running = nil
                guard state.watched == sequence else { return nil }
                state.watched = nil
                return state.noticed
            }
            guard let noticed else { return }
            var entry = SuspensionJournal.Entry(error == nil ? .finished : .rolledBack)
            entry.sequence = sequence
            entry.milliseconds = (Clock.now - noticed).milliseconds
            journal.append(entry)
        }

        var isSuspended: Bool { state.withLock { $0.isSuspended } }

        func waitUntilResumed() {
            resumed.lock()
            while isSuspended { resumed.wait() }
            resumed.unlock()
        }
    }
#endif
