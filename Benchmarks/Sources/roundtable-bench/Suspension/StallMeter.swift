#if os(Linux)
    import Foundation
    import RoundtableTestKit
    import Synchronization

    /// Whether the machine lets the process run while it gets ready to be frozen: from the notice on, a thread wakes each millisecond, and
    /// looks how long the writing thread has waited for a processor. On a machine that is busy, or virtual, that may be longer
    /// than the whole notice, and then nothing that the process does could have helped it.
    final class StallMeter: Sendable {
        private let journal: SuspensionJournal
        private let isRunning = Mutex(false)
        private let changed = NSCondition()
        /// Of the writing thread (proc_pid_schedstat(5)): ns on a processor, and ns of waiting for one.
        private let statistics = Mutex<String?>(nil)

        init(_ journal: SuspensionJournal) {
            self.journal = journal
            Thread.detachNewThread { self.run() }
        }

        func handle(_ event: SuspensionSubject.Event) {
            changed.lock()
            defer { changed.unlock() }
            switch event {
            case .suspending: isRunning.withLock { $0 = true }
            case .expiring: return
            case .resumed: isRunning.withLock { $0 = false }
            }
            changed.signal()
        }

        /// The calling thread is the one that writes.
        func watchThisThread() {
            let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
            statistics.withLock { $0 = path.map { "/proc/\($0)/schedstat" } }
        }

        private var writer: (running: Nanoseconds, waiting: Nanoseconds) {
            guard let path = statistics.withLock({ $0 }), let text = try? String(contentsOfFile: path, encoding: .utf8)
            else { return (0, 0) }
            let fields = text.split(separator: " ").compactMap { UInt64($0) }
            return fields.count < 2 ? (0, 0) : (fields[0], fields[1])
        }

        private func run() -> Never {
            while true {
                changed.lock()
                while !isRunning.withLock({ $0 }) { changed.wait() }
                changed.unlock()
                let noticed = Clock.now
                let began = writer
                var (last, longestGap) = (noticed, Nanoseconds(0))
                while isRunning.withLock({ $0 }) {
                    let writer = writer
                    journal.record(
                        SuspensionJournal.Ticks(
                            noticed: noticed,
                            last: last,
                            longestGap: longestGap,
                            running: writer.running - began.running,
                            waiting: writer.waiting - began.waiting
                        )
                    )
                    usleep(1000)
                    let now = Clock.now
                    longestGap = max(longestGap, now - last)
                    last = now
                }
            }
        }
    }
#endif
