import Foundation
import Glibc
import Roundtable
import RoundtableTestSupport
import Synchronization

/// Records processes at work, and checks what power cuts would have left of their files.
struct PowerCutCampaign: Sendable {
    var durability: CommitDurability
    /// How many different states are to be checked.
    var states: Int
    var seed: UInt64
    var ignored = IgnoredSyncs.none
    /// Of how many states one is opened by the library, too.
    var libraryEvery = 20
    var threads = 2
    /// When the campaign ends, whatever it has reached.
    var deadline: ContinuousClock.Instant?
    /// Where traces are left that show a defect; nil: nowhere.
    var keptTraces: URL?

    /// The number of different states that are taken from one trace.
    private static let statesOfTrace = 4000
    private static let variantsOfPass = 4
    private static let passes = 200
    private static let writers = 3
    private static let commits = 30
    private static let commands = 24
    private static let values = 25

    private var isLate: Bool { deadline.map { $0 < .now } ?? false }

    func run() throws -> PowerCutReport {
        let temporary = try TemporaryFolder(inMemory: true)
        defer { temporary.remove() }
        let place = temporary.url
        let recorder = try WriteRecorder(in: place)
        let shared = Mutex((report: PowerCutReport(self), next: 0, error: (any Error)?.none, reportedMinutes: 0))
        let begin = ContinuousClock.now
        DispatchQueue.concurrentPerform(iterations: threads) { _ in
            while true {
                let index = shared.withLock { shared -> Int? in
                    let isDone =
                        shared.error != nil || shared.report.distinctStates >= states || shared.report.isHopeless
                        // At least one trace is replayed, whatever the time.
                        || isLate && shared.next > 0
                    guard !isDone else { return nil }
                    defer { shared.next += 1 }
                    return shared.next
                }
                guard let index else { return }
                do {
                    let folder = place.appendingPathComponent("\(index)", isDirectory: true)
                    let traceSeed = seed &+ UInt64(index) &* 0x9E37_79B9
                    let trace = try record(index, traceSeed, in: folder, recorder)
                    let part = try replay(trace, traceSeed, in: folder, recorder) { new in
                        isLate || shared.withLock { $0.report.distinctStates + new >= states }
                    }
                    try? FileManager.default.removeItem(at: folder)
                    shared.withLock { shared in
                        shared.report.add(part)
                        tellProgress(of: shared.report, ContinuousClock.now - begin, &shared.reportedMinutes)
                    }
                } catch {
                    shared.withLock { $0.error = error }
                }
            }
        }
        if let error = shared.withLock({ $0.error }) { throw error }
        var report = shared.withLock { $0.report }
        report.seconds = Double((ContinuousClock.now - begin).components.seconds)
        return report
    }

    /// Once a minute.
    private func tellProgress(of report: PowerCutReport, _ time: Duration, _ reportedMinutes: inout Int) {
        let minutes = Int(time / .seconds(60))
        guard minutes > reportedMinutes else { return }
        reportedMinutes = minutes
        let text = "\(minutes) min: \(report.distinctStates) of \(states) states, \(report.failures.count) wrong\n"
        FileHandle.standardError.write(Data(text.utf8))
    }

    // MARK: Recording

    private func record(_ index: Int, _ seed: UInt64, in folder: URL, _ recorder: WriteRecorder) throws -> RecordedTrace
    {
        let recorded = folder.appendingPathComponent("recorded", isDirectory: true)
        try FileManager.default.createDirectory(at: recorded, withIntermediateDirectories: true)
        let log = folder.appendingPathComponent("log")
        return try recorder.record(recorded, log: log) { environment, sample in
            var fleet = PowerCutFleet(folder: recorded, notes: folder, durability: durability, seed: seed)
            defer { fleet.end() }
            fleet.environment = environment
            for writer in 1...Self.writers { try fleet.start(.writer, writer, count: Self.commits) }
            try fleet.start(.owner, 10, count: 0)
            try fleet.start(.sender, 11, count: Self.commands)
            try fleet.start(.publisher, 12, count: Self.values)
            let companions = ["-shm", "-coord4"].map {
                recorded.appendingPathComponent(PowerCutPlaces.databaseName + $0)
            }
            let commands = recorded.appendingPathComponent(PowerCutPlaces.databaseName + "-outbox/commands")
            var samples = Samples()
            try eventually("the recorded processes end", within: .seconds(120)) {
                if samples.isNextDue { for companion in companions { sample(companion) } }
                guard try fleet.othersHaveEnded() else { return false }
                return try FileManager.default.contentsOfDirectory(atPath: commands.path).isEmpty
            }
            try fleet.endOwner()
        }
    }

    /// The moments at which the companion files are copied to the log: fewer when a busy machine lets a recording take long, because the log has
    /// a fixed size.
    private struct Samples {
        private var count = 0
        private var pause = Duration.zero
        private var next = ContinuousClock.now

        var isNextDue: Bool {
            mutating get {
                guard next <= .now else { return false }
                count += 1
                if count.isMultiple(of: 100) { pause = max(pause * 2, .milliseconds(1)) }
                next = .now + pause
                return true
            }
        }
    }

    // MARK: Replaying

    /// - parameter isEnough: whether so many states of this trace suffice.
    private func replay(
        _ trace: RecordedTrace,
        _ traceSeed: UInt64,
        in folder: URL,
        _ recorder: WriteRecorder,
        _ isEnough: (Int) -> Bool
    ) throws -> PowerCutReport.Part {
        let place = folder.appendingPathComponent("state", isDirectory: true)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        let checker = CrashStateChecker(durability: durability, folder: place)
        var part = PowerCutReport.Part()
        part.events = trace.events.count
        var known: [UInt64: CrashStateChecker.Observation] = [:]
        // Each pass goes through the whole trace, so that a campaign of any size sees each part of it.
        let wanted = min(Self.statesOfTrace, max(1, states / threads))
        let step = max(1, trace.events.count * Self.variantsOfPass / (2 * wanted))
        for pass in 0..<Self.passes {
            if known.count >= wanted || isEnough(known.count) || part.failures.count >= 20 { break }
            let firstVariant = pass / step * Self.variantsOfPass
            var model = DiskModel(trace, ignoring: ignored)
            for event in trace.events.indices {
                guard model.apply(event), event % step == pass % step else { continue }
                part.cutPoints += firstVariant == 0 ? 1 : 0
                for variant in firstVariant..<firstVariant + Self.variantsOfPass {
                    let name = CrashState.Name(event: event, variant: variant)
                    let state = CrashState(model, name, seed: traceSeed, hash: recorder.hash)
                    part.replayed += 1
                    let observation: CrashStateChecker.Observation
                    if let found = known[state.fingerprint] {
                        observation = found
                    } else {
                        let usesLibrary = known.count % libraryEvery == 0
                        observation = try checker.observe(state, usingLibrary: usesLibrary)
                        known[state.fingerprint] = observation
                        part.openedByLibrary += usesLibrary ? 1 : 0
                    }
                    part.note(observation, model.bounds)
                    if let finding = checker.judge(observation, model.bounds) {
                        part.add(finding, name, traceSeed, state.description)
                    }
                }
                if isEnough(known.count) || part.failures.count >= 20 { break }
            }
            if let unsupported = model.unsupported { throw TestKitError("the model does not know \(unsupported)") }
        }
        part.distinctStates = known.count
        if !part.failures.isEmpty, let keptTraces {
            let kept = keptTraces.appendingPathComponent("powercut-\(String(traceSeed, radix: 16)).trace")
            try trace.write(to: kept)
            part.keep(kept.path)
        }
        return part
    }

    /// Checks one state of a trace that was left.
    func replay(_ name: CrashState.Name, of trace: RecordedTrace, _ traceSeed: UInt64) throws -> (
        String, CrashStateChecker.Finding?
    ) {
        let temporary = try TemporaryFolder(inMemory: true)
        defer { temporary.remove() }
        let recorder = try WriteRecorder(in: temporary.url)
        let place = temporary.url.appendingPathComponent("state", isDirectory: true)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        var model = DiskModel(trace, ignoring: ignored)
        for event in 0...min(name.event, trace.events.count - 1) { _ = model.apply(event) }
        let state = CrashState(model, name, seed: traceSeed, hash: recorder.hash)
        let checker = CrashStateChecker(durability: durability, folder: place)
        let finding = try checker.judge(checker.observe(state, usingLibrary: true), model.bounds)
        return (state.description, finding)
    }
}
