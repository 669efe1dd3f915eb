#if os(Linux)
    import Foundation
    import GRDB
    import Roundtable
    import RoundtableTestKit

    /// The process before the police: connects to it, opens its database, and writes until it is killed.
    final class SuspensionProgram: Sendable {
        let task: SuspensionTask
        let journal: SuspensionJournal
        let watch: NoticeWatch

        init(_ task: SuspensionTask) throws {
            self.task = task
            journal = try SuspensionJournal(task)
            watch = NoticeWatch(journal)
        }

        func run() throws -> Never {
            endWithParent()
            let writer = try open()
            var sequence = max(SuspensionJournal.acknowledged(task), try writer.lastSequence())
            try task.activity.map { try start($0, beside: writer) }
            watch.stalls.watchThisThread()
            journal.recordReady()
            while true {
                sequence += 1
                write(sequence, to: writer)
            }
        }

        /// Nobody else would end it when the one who started it is killed.
        private func endWithParent() {
            let parent = getppid()
            Thread.detachNewThread {
                while getppid() == parent { usleep(500_000) }
                _exit(1)
            }
        }

        // MARK: Opening

        private func open() throws -> any SuspendedWriter {
            switch task.contestant {
            case .ours:
                try SuspensionSubject.connectSharedDatabases(
                    takingAssertions: task.assertions != .off,
                    onEvent: watch.handle,
                    onSuspension: tell
                )
                return try SharedDatabaseWriter(task)
            case .grdbNotified:
                let suspension = PoolSuspension()
                suspension.connect(
                    try SuspensionSubject.connect { [watch] event in
                        watch.handle(event)
                        suspension.handle(event)
                    }
                )
                return try PoolWriter(task, suspension)
            case .grdb:
                _ = try SuspensionSubject.connect(onEvent: watch.handle)
                return try PoolWriter(task, nil)
            case .sqliteC:
                _ = try SuspensionSubject.connect(onEvent: watch.handle)
                return try CInterfaceWriter(task)
            }
        }

        private func tell(_ suspensions: [SuspensionReport]) {
            for suspension in suspensions where suspension.path == task.databasePath {
                var entry = SuspensionJournal.Entry(.gate)
                entry.text = "\(suspension.outcome)"
                entry.milliseconds = suspension.duration / .milliseconds(1)
                journal.append(entry)
            }
        }

        // MARK: Writing

        /// Until it is committed.
        private func write(_ sequence: Int, to writer: any SuspendedWriter) {
            while true {
                var isInside = false
                do {
                    try writer.write(sequence, rows: task.rows) {
                        isInside = true
                        watch.begin(sequence)
                        compute()
                    }
                    journal.acknowledge(sequence)
                    watch.end(sequence, nil)
                    return
                } catch {
                    watch.end(sequence, error)
                    if !tell(error, sequence, isInside: isInside) {
                        journal.acknowledge(sequence)
                        return
                    }
                    pause()
                }
            }
        }

        /// - returns: whether the transaction is to be tried again.
        private func tell(_ error: any Error, _ sequence: Int, isInside: Bool) -> Bool {
            var entry = SuspensionJournal.Entry(.error)
            entry.sequence = sequence
            entry.isInside = isInside
            entry.code = SuspensionProgram.code(of: error)
            entry.text = "\(error)"
            // Its key is there already: an earlier attempt, which threw, was committed.
            let isThere = entry.code.map { $0 & 0xFF == 19 } ?? false
            if isThere { entry.kind = .committedThoughFailed }
            journal.append(entry)
            return !isThere
        }

        static func code(of error: any Error) -> Int? {
            switch error {
            case let error as DatabaseError: Int(error.extendedResultCode.rawValue)
            case let error as CInterfaceContestant.Failure: Int(error.code)
            default: nil
            }
        }

        /// As a program does that has met the closed gate: it goes on when it is resumed.
        func pause() {
            if watch.isSuspended { watch.waitUntilResumed() } else { usleep(1000) }
        }

        /// Keeps a processor busy, and SQLite idle.
        private func compute() {
            guard task.computingMilliseconds > 0 else { return }
            let end = Clock.now + Nanoseconds(seconds: task.computingMilliseconds / 1e3)
            while Clock.now < end {}
        }
    }
#endif
