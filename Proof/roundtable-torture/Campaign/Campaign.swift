import Foundation
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Set by SIGINT and SIGTERM: the campaign then ends as at the end of its time, with all checks.
private let endRequested = Atomic(false)

/// Real processes on one database, under faults at random moments, and checks of everything that was reported to them.
final class Campaign {
    let settings: CampaignSettings
    let fleet: PeerFleet
    var random: SeededGenerator
    var report: CampaignReport
    var members: [Member] = []
    var spares: [Peer] = []
    var stranger: ChildProcess?
    var strangers = 0
    var disk: LimitedDisk?
    /// The moment at which a full disk has space again.
    var diskEmpties: ContinuousClock.Instant?
    private(set) var verifier: CampaignVerifier!
    private var leaks = LeakWatch()
    private var deadSlots: [OwnerWord: ContinuousClock.Instant] = [:]
    private var observerTarget: (row: Int, since: ContinuousClock.Instant, lived: Double)?
    private var lastFault = "none"
    private var lastWatch = ContinuousClock.now
    private let began = ContinuousClock.now

    /// Runs a campaign to its end, and prints its report.
    static func run(_ settings: CampaignSettings) throws -> CampaignReport {
        say("\(settings.verb): seed 0x\(String(settings.seed, radix: 16)); again: \(settings.command)")
        return try PeerFleet.run(inMemory: settings.inMemory) { fleet in
            let campaign = try Campaign(settings, fleet)
            // Before the fleet removes its folder.
            defer { campaign.disk?.unmount() }
            do {
                try campaign.run()
            } catch {
                campaign.note(.anomaly, "the campaign ended: \(error)")
            }
            campaign.conclude()
            say(campaign.report.table)
            if !campaign.report.isClean {
                // The processes must not change the files while they are copied.
                for member in campaign.members { member.peer.process.end() }
                campaign.stranger?.end()
                let kept = FileManager.default.temporaryDirectory
                    .appendingPathComponent("roundtable-torture-\(getpid())-\(String(settings.seed, radix: 16))")
                try? FileManager.default.copyItem(at: fleet.folder, to: kept)
                say(
                    "FAILED: seed 0x\(String(settings.seed, radix: 16)); again: \(settings.command)\nfolder: \(kept.path)"
                )
            }
            return campaign.report
        }
    }

    private init(_ settings: CampaignSettings, _ fleet: PeerFleet) throws {
        self.settings = settings
        self.fleet = fleet
        random = SeededGenerator(seed: settings.seed)
        report = CampaignReport(
            verb: settings.verb,
            seed: "0x\(String(settings.seed, radix: 16))",
            command: settings.command,
            processes: settings.processes
        )
        verifier = CampaignVerifier(database: fleet.database) { [unowned self] in note($0, $1) }
        try FileManager.default.createDirectory(at: notes, withIntermediateDirectories: true)
        if settings.fillsDisk { try mountDisk() }
        try CampaignWorld.create(at: fleet.database)
    }

    var notes: URL { fleet.folder.appendingPathComponent("campaign", isDirectory: true) }

    func note(_ finding: CampaignVerifier.Finding, _ problem: String) {
        switch finding {
        case .lost: report.lost += 1
        case .corrupt: report.corrupt += 1
        case .anomaly: report.anomalies += 1
        }
        if report.problems.count < 50 { report.problems.append("\(finding): \(problem) (last fault: \(lastFault))") }
        say("PROBLEM \(finding): \(problem)")
    }

    // MARK: The loop

    /// The roles of the first processes. The first two are never killed.
    private static let roles: [CampaignWork.Role] = [
        .writer, .observer, .writer, .consumer, .owner, .sender, .sharedWriter, .reader, .checkpointer, .writer,
    ]

    private func run() throws {
        for index in 0..<settings.processes {
            let role = Self.roles[index < Self.roles.count ? index : 2]
            let peer = try takeSpare()
            let work = makeWork(role, peer)
            let member = Member(role: role, isResident: index < 2, peer: peer, work: work)
            members.append(member)
            try begin(member)
        }
        var nextFault = ContinuousClock.now + .seconds(1)
        var nextCheck = ContinuousClock.now + .seconds(settings.secondsBetweenChecks)
        var nextLine = ContinuousClock.now + .seconds(60)
        for number in [SIGINT, SIGTERM] { signal(number) { _ in endRequested.store(true, ordering: .relaxed) } }
        while !isOver, report.isClean {
            try watch()
            let now = ContinuousClock.now
            if now >= nextFault, areAtWork || now >= nextFault + .seconds(5) {
                try inflict()
                nextFault = now + .microseconds(Int(.random(in: 0...2, using: &random) * settings.meanInterval * 1000))
            }
            if spares.count < 2 { spares.append(try fleet.spawn()) }
            // A stopped process may hold the lock that a check needs, and a check deletes rows.
            if now >= nextCheck, diskEmpties == nil, members.allSatisfy({ $0.resumes == nil }) {
                try check()
                nextCheck = .now + .seconds(settings.secondsBetweenChecks)
            }
            if now >= nextLine {
                update()
                say(report.summary)
                nextLine = now + .seconds(60)
            }
            usleep(2000)
        }
        if report.isClean { try finish() }
    }

    /// Whether half of the processes have made progress, so that kills do not only hit processes that open the database.
    private var areAtWork: Bool { members.count { $0.hasBegun } >= members.count / 2 }

    private var elapsed: Double { (ContinuousClock.now - began) / .seconds(1) }

    private var isOver: Bool {
        if endRequested.load(ordering: .relaxed) { return true }
        if let seconds = settings.seconds, elapsed >= seconds {
            // A short campaign whose disk was never full when it mattered has tested nothing.
            if !settings.fillsDisk || hasMetFullDisk || elapsed >= 10 * seconds { return true }
        }
        if let kills = settings.kills, report.faults["kill", default: 0] >= kills { return true }
        return false
    }

    /// Whether a process met an error of a full disk.
    private var hasMetFullDisk: Bool {
        report.diskErrors > 0 || members.contains { ProgressFile.count(at: $0.work.diskErrors) > 0 }
    }

    // MARK: Processes

    private func takeSpare() throws -> Peer {
        spares.isEmpty ? try fleet.spawn() : spares.removeFirst()
    }

    private func makeWork(_ role: CampaignWork.Role, _ peer: Peer) -> CampaignWork {
        var work = CampaignWork(
            role: role,
            author: peer.name,
            path: fleet.database.path,
            folder: notes.path,
            seed: random.next(),
            pauseMilliseconds: settings.pauseMilliseconds,
            checkpointThreshold: [50, 200, 1000].randomElement(using: &random)!
        )
        work.defect = settings.defect
        work.mayFindDiskFull = settings.fillsDisk
        return work
    }

    private func begin(_ member: Member) throws {
        if !member.isResident,
            [.leaksDescriptors, .leaksMemory, .leaksThreads, .holdsForever, .entersDeadParticipants]
                .contains(member.work.defect)
        {
            member.work.defect = nil
        }
        member.value = 0
        member.hasBegun = false
        member.resumes = nil
        member.lastChange = .now
        member.livedGap = 0
        try member.peer.send(.campaign(member.work))
    }

    /// Starts the successor of a process that was killed.
    func replace(_ member: Member) throws {
        let acknowledged = member.progress
        verifier.end(member.work, acknowledged: acknowledged)
        if acknowledged > 0 { report.killedAtWork += 1 }
        readProblems(of: member)
        countDiskErrors(of: member)
        if member.role == .writer { report.acknowledged += acknowledged }
        let from = max(member.work.from, acknowledged)
        member.peer = try takeSpare()
        member.work = makeWork(member.role, member.peer)
        if member.role == .sender { member.work.from = from }
        try begin(member)
    }

    private func countDiskErrors(of member: Member) {
        report.diskErrors += ProgressFile.count(at: member.work.diskErrors)
        try? FileManager.default.removeItem(atPath: member.work.diskErrors)
    }

    private func readProblems(of member: Member) {
        guard let text = try? String(contentsOfFile: member.work.problems, encoding: .utf8) else { return }
        for line in text.split(separator: "\n").prefix(5) {
            note(.anomaly, "\(member.role) \(member.work.author): \(line)")
        }
        try? FileManager.default.removeItem(atPath: member.work.problems)
    }

    // MARK: Progress

    /// Resumes processes whose stop is over, and looks whether all others make progress.
    private func watch() throws {
        // A time in which this process was not scheduled, or checked, says nothing of the others: they may not have been scheduled either.
        let lived = min(0.02, (ContinuousClock.now - lastWatch) / .seconds(1))
        lastWatch = .now
        if let diskEmpties, .now >= diskEmpties { emptyDisk() }
        for member in members {
            if let moment = member.resumes {
                guard ContinuousClock.now >= moment, member.hasStopped(since: moment) else { continue }
                resume(member)
            }
            let value = member.progress
            let now = ContinuousClock.now
            let gap = (now - member.lastChange) / .milliseconds(1)
            member.livedGap += lived
            if value != member.value {
                if member.hasBegun {
                    report.longestDelays[lastFault] = max(report.longestDelays[lastFault] ?? 0, gap)
                } else {
                    report.longestStart = max(report.longestStart, gap)
                }
                member.hasBegun = true
                (member.value, member.lastChange, member.livedGap) = (value, now, 0)
            } else if member.livedGap > settings.stuckAfter {
                let holder = holderOfLock
                stick("\(member.role) \(member.peer) makes no progress after \(value) for \(Int(gap)) ms; \(holder)")
                (member.lastChange, member.livedGap) = (now, 0)
            } else if gap > 1000, !member.peer.process.isRunning {
                note(
                    .anomaly,
                    "\(member.role) \(member.peer) ended by itself: \(member.peer.process.errorText.suffix(2000))"
                )
                try replace(member)
            }
        }
        watchObserver(lived)
    }

    private func resume(_ member: Member) {
        member.peer.process.resume()
        member.resumes = nil
        member.lastChange = .now
        member.livedGap = 0
    }

    private func stick(_ problem: String) {
        report.stuck += 1
        report.problems.append("stuck: \(problem) (last fault: \(lastFault))")
        say("PROBLEM stuck: \(problem)")
    }

    /// Who has SQLite's write lock, in words.
    private var holderOfLock: String {
        guard let status = try? DatabaseStatus(ofDatabaseAt: fleet.database) else { return "its holder is not known" }
        guard let holder = status.writeLock else { return "the write lock is free" }
        let author = status.participants.first { $0.pid == holder.pid }?.author
        return "the write lock is held by \(author.map { "'\($0)' (pid \(holder.pid))" } ?? "\(holder)")"
    }

    /// The two counts of the observer that is never killed.
    private var observed: Int {
        guard let observer = members.first(where: { $0.role == .observer }) else { return 0 }
        return min(observer.progress, ProgressFile.count(at: observer.work.values))
    }

    private func watchObserver(_ lived: Double) {
        observerTarget?.lived += lived
        guard let target = observerTarget else { return }
        let lag = (ContinuousClock.now - target.since) / .milliseconds(1)
        if observed >= target.row {
            report.longestObserverLag = max(report.longestObserverLag, lag)
            observerTarget = nil
        } else if target.lived > settings.stuckAfter {
            stick("the observer saw row \(observed), and not row \(target.row), for \(Int(lag)) ms")
            observerTarget = nil
        }
    }

    // MARK: Faults

    private func inflict() throws {
        let total = settings.weights.map(\.1).reduce(0, +)
        var choice = Int.random(in: 0..<total, using: &random)
        let fault = settings.weights.first { weight in
            choice -= weight.1
            return choice < 0
        }!.0
        try inflict(fault)
        report.faults[fault.rawValue, default: 0] += 1
        lastFault = fault.rawValue
    }

    // MARK: Checks

    private func check() throws {
        for member in members { readProblems(of: member) }
        let living = members.filter { $0.role == .writer }.map { ($0.work.author, $0.progress) }
        try verifier.check(living: Dictionary(uniqueKeysWithValues: living))
        report.checks += 1
        if observerTarget == nil { observerTarget = (verifier.lastEntry, .now, 0) }
        for member in members where member.isResident && member.resumes == nil {
            leaks.sample("\(member.role) that is never killed", member.peer.pid)
        }
        checkSlots()
        func size(_ suffix: String) -> Int {
            ((try? FileManager.default.attributesOfItem(atPath: fleet.database.path + suffix)[.size]) as? Int) ?? 0
        }
        report.largestWAL = max(report.largestWAL, size("-wal"))
        report.largestDatabase = max(report.largestDatabase, size(""))
    }

    /// Slots of dead processes must be freed by the living.
    private func checkSlots() {
        guard let block = try? ControlBlock.open(forDatabaseAt: fleet.database.path, writable: false) else { return }
        let dead = block.participants().filter { $0.liveness == .dead }.map(\.owner)
        let now = ContinuousClock.now
        deadSlots = Dictionary(dead.map { ($0, deadSlots[$0] ?? now) }) { first, _ in first }
        let longest = deadSlots.values.map { (now - $0) / .seconds(1) }.max() ?? 0
        report.longestDeadSlot = max(report.longestDeadSlot, longest)
        if longest > settings.stuckAfter {
            report.problems.append("leak: a slot of a dead process stayed occupied for \(Int(longest)) s")
        }
    }

    private func update() {
        report.seconds = elapsed
        report.commits = verifier.commits
        report.sharedWrites = verifier.sharedWrites
        report.commandsApplied = verifier.commandsApplied
        report.historyChanges = verifier.handed
        report.leaks = leaks.leaks
        if let path = settings.report { try? report.write(to: path) }
    }

    // MARK: The end

    /// Lets all work that was begun end, stops the processes, and checks everything.
    private func finish() throws {
        for member in members {
            guard let moment = member.resumes else { continue }
            try eventually("\(member.peer) has stopped") { member.hasStopped(since: moment) }
            resume(member)
        }
        endStranger()
        emptyDisk()
        let deadline = Duration.seconds(5 * settings.stuckAfter)
        func stop(_ roles: Set<CampaignWork.Role>) throws {
            for member in members where roles.contains(member.role) { try member.peer.send(.stop) }
            for member in members where roles.contains(member.role) {
                // The reply to the work, and the one to `stop`.
                for _ in 0..<2 {
                    let reply = try member.peer.reply(within: deadline)
                    if reply.outcome != .done { note(.anomaly, "\(member.peer): \(reply.message ?? "")") }
                }
            }
        }
        try stop([.sender])
        if let sender = members.first(where: { $0.role == .sender }), members.contains(where: { $0.role == .owner }) {
            let submitted = max(sender.work.from, sender.progress)
            try eventually("all \(submitted) commands are applied", within: deadline) {
                try check()
                // A sender that was killed may have submitted one that it did not acknowledge.
                return verifier.commandsApplied >= submitted
            }
        }
        try stop([.writer, .sharedWriter, .checkpointer])
        try check()
        let last = verifier.lastEntry
        try eventually("the observer sees row \(last)", within: deadline) { observed == last }
        if members.contains(where: { $0.role == .consumer }) {
            try eventually("the consumer sees row \(last)", within: deadline) {
                try check()
                return verifier.lastMirror == last
            }
        }
        try stop([.observer, .consumer, .owner, .reader])
        for member in members {
            readProblems(of: member)
            countDiskErrors(of: member)
            if member.role == .writer { report.acknowledged += member.progress }
            verifier.end(member.work, acknowledged: member.progress)
        }
        try check()
        report.isComplete = true
    }

    private func conclude() {
        update()
        for (name, leak) in report.leaks where leak.isLeak {
            report.problems.append("leak: \(name) grew from \(leak.early) to \(leak.late)")
        }
        if let path = settings.report { try? report.write(to: path) }
    }
}
