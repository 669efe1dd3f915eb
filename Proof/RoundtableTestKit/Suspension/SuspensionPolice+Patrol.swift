#if os(Linux)
    import Foundation

    extension SuspensionPolice {
        /// Suspends a process at random moments, until it was frozen `freezes` times, it ends, or the time is up.
        ///
        /// - Parameters:
        ///   - pid: the process.
        ///   - freezes: how often the process is frozen.
        ///   - pauses: the bounds of the random time for which the process runs before each suspension, until the notice (or
        ///     the freeze, without notice).
        ///   - duration: how long the process stays frozen each time.
        ///   - seed: the seed of the random choices. The report contains it.
        ///   - timeLimit: the longest time that the patrol takes, checked between freezes; nil for no limit.
        ///   - onVerdict: called after each freeze.
        ///   - continueWhile: checked every few milliseconds between freezes. The patrol ends when it returns false.
        /// - throws: `SuspensionPoliceError` as ``freeze(_:for:)`` does.
        public func patrol(
            _ pid: Int32,
            freezes: Int,
            pauses: ClosedRange<Duration> = .zero...(.milliseconds(100)),
            frozenFor duration: Duration = .zero,
            seed: UInt64 = .random(in: 0...UInt64.max),
            timeLimit: Duration? = nil,
            onVerdict: (Verdict) -> Void = { _ in },
            continueWhile: () -> Bool = { true }
        ) throws -> PoliceReport {
            var random = SeededGenerator(seed: seed)
            var report = PoliceReport(seed: seed)
            let began = ContinuousClock.now
            let deadline = timeLimit.map { began + $0 }
            func isOver() -> Bool {
                if let deadline, ContinuousClock.now >= deadline { return true }
                return !continueWhile() || launched[pid]?.hasEnded ?? (ProcessTree.Member(pid) == nil)
            }
            while report.freezes < freezes {
                let bounds = (pauses.lowerBound / .microseconds(1))...(pauses.upperBound / .microseconds(1))
                let pause = Duration.microseconds(Int64(Double.random(in: bounds, using: &random)))
                wait(until: .now + pause, or: isOver)
                if isOver() { break }
                let verdict = try freeze(pid, for: duration)
                if verdict.outcome == .gone { break }
                report.add(verdict)
                onVerdict(verdict)
            }
            if report.freezes < freezes { try checkIsShown(pid) }
            report.seconds = (ContinuousClock.now - began) / .seconds(1)
            return report
        }
    }
#endif
