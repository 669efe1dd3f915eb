#if os(Linux)
    import Foundation
    import RoundtableKernel
    import RoundtableTestSupport
    import Synchronization

    /// All points of some operations, or a sample of them, on several workers.
    final class SweepCampaign: Sendable {
        struct Settings: Sendable {
            var operations: [SweepOperation]
            var companies: [SweepPoint.Company]
            var seed: UInt64
            var minutes: Double?
            /// How many kills, and how many errors, are taken; nil for all.
            var sample: Int?
            var kinds: [SweepPoint.Kind]
            /// The names of the system calls; all when empty.
            var calls: [String]
            var only: SweepPoint?
            var defect: SweepDefect?
            var workers: Int
            /// The longest that a step may take: what takes longer is stuck.
            var patience: Duration
        }

        private struct State {
            var waiting: [SweepPoint] = []
            var counts: [SweepOperation: SweepCounts] = [:]
            var failures: [SweepSummary.Failure] = []
            var missed: [String] = []
            var broken: String?
            /// The moment at which the calls of all operations were known.
            var recorded: ContinuousClock.Instant?
            /// The minutes after which progress was reported last.
            var reportedMinutes = 0
        }

        private let settings: Settings
        private let state = Mutex(State())
        private let began = ContinuousClock.now

        init(_ settings: Settings) { self.settings = settings }

        private static let pointsOfOneFleet = 400

        func run() throws -> SweepSummary {
            if let only = settings.only {
                state.withLock { $0.waiting = [only] }
            } else {
                try record()
            }
            let queue = DispatchQueue(label: "sweep", attributes: .concurrent)
            let ended = DispatchGroup()
            for _ in 0..<settings.workers {
                queue.async(group: ended) { self.work() }
            }
            ended.wait()
            return try state.withLock { state in
                if let broken = state.broken { throw TestKitError(broken) }
                return SweepSummary(
                    seed: "0x\(String(settings.seed, radix: 16))",
                    seconds: (ContinuousClock.now - began) / .seconds(1),
                    operations: SweepOperation.allCases.compactMap { state.counts[$0] },
                    failures: state.failures,
                    missed: state.missed
                )
            }
        }

        private func record() throws {
            var points: [SweepPoint] = []
            try PeerFleet.run(inMemory: true) { fleet in
                let worker = try SweepWorker(fleet, defect: nil, patience: settings.patience)
                for operation in settings.operations {
                    var counts = SweepCounts(operation: operation.rawValue)
                    for company in settings.companies where !(operation == .create && company == .beside) {
                        for door in SweepDoor.allCases {
                            let calls = try worker.record(operation, company, door)
                            counts.calls["\(company.rawValue) \(door.rawValue)"] = calls.count
                            points += SweepPoint.all(operation, company, door, calls).filter { point in
                                settings.kinds.contains(point.kind)
                                    && (settings.calls.isEmpty || settings.calls.contains(point.call.name))
                            }
                        }
                    }
                    let ours = points.filter { $0.operation == operation }
                    counts.killPoints = ours.count { $0.fault.action.isKill }
                    counts.errorPoints = ours.count - counts.killPoints
                    state.withLock { $0.counts[operation] = counts }
                }
            }
            var random = SeededGenerator(seed: settings.seed)
            points.shuffle(using: &random)
            if let sample = settings.sample {
                let (kills, errors) = (points.filter(\.fault.action.isKill), points.filter { !$0.fault.action.isKill })
                points = (Array(kills.prefix(sample)) + errors.prefix(sample)).shuffled(using: &random)
            }
            state.withLock { [points] state in
                state.waiting = points.reversed()
                state.recorded = .now
            }
        }

        private func next() -> SweepPoint? {
            state.withLock { state in
                guard state.broken == nil else { return nil }
                if let minutes = settings.minutes, let recorded = state.recorded {
                    guard ContinuousClock.now - recorded < .seconds(minutes * 60) else { return nil }
                }
                return state.waiting.popLast()
            }
        }

        private func work() {
            do {
                var isDone = false
                while !isDone {
                    try PeerFleet.run(inMemory: true) { fleet in
                        let worker = try SweepWorker(fleet, defect: settings.defect, patience: settings.patience)
                        for _ in 0..<Self.pointsOfOneFleet {
                            guard let point = next() else {
                                isDone = true
                                return
                            }
                            try take(point, worker)
                        }
                    }
                }
            } catch {
                state.withLock { $0.broken = $0.broken ?? "the campaign itself failed: \(error)" }
            }
        }

        /// The numbers of calls vary a little with what other threads of the process do: a point that is not reached is tried again.
        private func take(_ point: SweepPoint, _ worker: SweepWorker) throws {
            var result = try worker.run(point)
            for _ in 0..<2 where result.outcome == .missed && result.problems.isEmpty { result = try worker.run(point) }
            if !result.problems.isEmpty { complain(point, result) }
            state.withLock { state in
                if result.outcome == .missed { state.missed.append(point.name) }
                if !result.problems.isEmpty {
                    state.failures.append(
                        .init(
                            point: point.name,
                            call: "\(point.call.name) \(point.call.role)",
                            problems: result.problems
                        )
                    )
                }
                var counts = state.counts[point.operation] ?? SweepCounts(operation: point.operation.rawValue)
                counts.count(result, isKill: point.fault.action.isKill)
                state.counts[point.operation] = counts
                tellProgress(&state)
            }
        }

        /// Once a minute.
        private func tellProgress(_ state: inout State) {
            let minutes = Int((ContinuousClock.now - began) / .seconds(60))
            guard minutes > state.reportedMinutes else { return }
            state.reportedMinutes = minutes
            let text = "\(minutes) min: \(state.waiting.count) points left, \(state.failures.count) wrong\n"
            FileHandle.standardError.write(Data(text.utf8))
        }

        private func complain(_ point: SweepPoint, _ result: SweepResult) {
            let text = """
                FAILED seed 0x\(String(settings.seed, radix: 16)): \(point.operation.rawValue), call \(point.fault.call) \
                (\(point.call.name) \(point.call.role)), \(point.name), which \(result.outcome.rawValue)
                \(result.error.map { "    the operation: \($0)\n" } ?? "")\
                \(result.problems.map { "    \($0)\n" }.joined())\
                    replay: \(CommandLine.arguments[0]) sweep --only \(point.name)\
                \(settings.defect.map { " --defect \($0.rawValue)" } ?? "")

                """
            FileHandle.standardError.write(Data(text.utf8))
        }
    }
#endif

extension SweepCounts {
    mutating func count(_ result: SweepResult, isKill: Bool) {
        switch result.outcome {
        case .killed: killsTaken += 1
        case .absorbed: absorbed += 1
        case .failed: failed += 1
        case .missed: missed += 1
        }
        if !isKill, result.outcome != .missed { errorsTaken += 1 }
        if !result.problems.isEmpty { wrong += 1 }
        longestMilliseconds = max(longestMilliseconds, result.milliseconds)
    }
}
