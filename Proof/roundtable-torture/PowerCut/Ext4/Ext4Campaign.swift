#if os(Linux)
    import Foundation
    import Roundtable
    import RoundtableTestSupport
    import Synchronization

    /// Cuts the power of a real file system while processes write, and checks what is there when it is mounted again.
    struct Ext4Campaign: Sendable {
        var durability: CommitDurability
        var cuts: Int
        var seed: UInt64
        var forgotten = IgnoredSyncs.none
        /// The campaign ends after so many defects.
        var failures = 20
        /// How many file systems are used at the same time.
        var threads = 2
        /// When the campaign ends, whatever it has reached.
        var deadline: ContinuousClock.Instant?
        /// Where the files are left that show a defect; nil: nowhere.
        var kept: URL?

        private struct Progress {
            var report: Ext4Report
            /// The lives that have begun, and the cuts that were promised to them.
            var lives = 0
            var promised = 0
            var error: (any Error)?
        }

        /// - throws: `Ext4Machine.Refusal` where the machine does not allow it; an error if a victim fails before the power is cut.
        func run() throws -> Ext4Report {
            try Ext4Machine.enter()
            let temporary = try Ext4Machine.temporaryFolder()
            defer { temporary.remove() }
            let place = temporary.url
            try Ext4Machine.probe(in: place.appendingPathComponent("probe", isDirectory: true))
            let environment = try ForgottenSyncs.environment(forgotten, in: place)
            let progress = Mutex(Progress(report: Ext4Report(self)))
            let begin = ContinuousClock.now
            DispatchQueue.concurrentPerform(iterations: threads) { _ in
                while let index = nextLife(progress) {
                    do {
                        let folder = place.appendingPathComponent("life-\(index)", isDirectory: true)
                        // An index of its own gives a life the same choices, however many run at the same time.
                        let seed = seed &+ UInt64(index) &* 0x9E37_79B9
                        var life = Ext4Life(self, seed: seed, folder: folder, environment: environment)
                        try life.run(
                            mayCut: { mayCut(progress) },
                            note: { cut in progress.withLock { $0.report.add(cut) } }
                        )
                        try FileManager.default.removeItem(at: folder)
                    } catch {
                        progress.withLock { $0.error = error }
                    }
                }
            }
            if let error = progress.withLock({ $0.error }) { throw error }
            var report = progress.withLock { $0.report }
            report.seconds = (ContinuousClock.now - begin) / .seconds(1)
            return report
        }

        private func nextLife(_ progress: borrowing Mutex<Progress>) -> Int? {
            progress.withLock { progress in
                guard !isOver(progress) else { return nil }
                progress.report.lives += 1
                defer { progress.lives += 1 }
                return progress.lives
            }
        }

        /// Promises a cut, if another one is wanted.
        private func mayCut(_ progress: borrowing Mutex<Progress>) -> Bool {
            progress.withLock { progress in
                guard !isOver(progress) else { return false }
                progress.promised += 1
                return true
            }
        }

        private func isOver(_ progress: Progress) -> Bool {
            progress.error != nil || progress.promised >= cuts || progress.report.failures.count >= failures
                || deadline.map { $0 < .now } ?? false
        }
    }
#endif
