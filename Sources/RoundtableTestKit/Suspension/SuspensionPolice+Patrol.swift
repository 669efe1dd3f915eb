#if os(Linux)
    import Foundation

    extension SuspensionPolice {
        /// Suspends a process at random moments until it has done so often, the process ends, or the time is up.
        ///
        /// - parameter pauses: how long the process runs between two suspensions, from when it is resumed to the notice (or the freeze,
        ///   without notice); each time at random.
        /// - parameter duration: how long it stays frozen.
        /// - parameter seed: of the random choices; the report has it.
        /// - parameter continueWhile: asked all the time; false ends the patrol.
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
            report.seconds = (ContinuousClock.now - began) / .seconds(1)
            return report
        }
    }
#endif
