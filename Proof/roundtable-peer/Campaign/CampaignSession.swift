import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The work of one process of a campaign.
final class CampaignSession {
    let work: CampaignWork
    let progress: ProgressFile
    let isOver: () -> Bool
    let trouble: DiskTrouble
    var random: SeededGenerator
    private var kept: [[UInt8]] = []
    private var rounds = 0
    private var nextLeak = MonotonicClock.now

    init(_ work: CampaignWork, until isOver: @escaping () -> Bool) throws {
        self.work = work
        self.isOver = isOver
        progress = try ProgressFile(countingAt: work.progress)
        trouble = try DiskTrouble(work)
        random = SeededGenerator(seed: work.seed)
    }

    func run() throws {
        if work.role == .sender { return try send() }
        try SharedDatabase.suspendAllOnTerminalStop()
        let database = try trouble.repeating { try open() }
        switch work.role {
        case .writer: try write(database)
        case .observer: try observe(database)
        case .consumer: try consume(database)
        case .owner: try own(database)
        case .reader: try read(database)
        case .checkpointer: try checkpoint(database)
        case .sharedWriter, .sender: preconditionFailure("performed by the session")
        }
        try database.close()
    }

    func open() throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        // The campaign judges by what the databases hold, and kills often enough to fill a log.
        options.eventLog = .off
        // Longer than any freeze of the campaign, on a machine that is busy with other work.
        options.busyTimeout = .seconds(1000)
        options.setupTimeout = .seconds(1000)
        options.whileSuspended = .wait
        options.checkpointing = .automatic(threshold: work.checkpointThreshold)
        if work.role == .owner { options.outbox = CampaignWorld.handlers(defect: work.defect) }
        let url = URL(fileURLWithPath: work.path)
        guard work.role == .reader else {
            return try SharedDatabase.open(at: url, schema: CampaignWorld.schema, as: work.author, options: options)
        }
        let (schema, author, readOptions) = (CampaignWorld.schema, work.author, options)
        let answer = try blocking {
            try await SharedDatabase.openReadOnly(
                at: url,
                schema: schema,
                as: author,
                options: readOptions,
                waitingUpTo: .seconds(1000)
            )
        }
        guard case .available(let database) = answer else { throw TestKitError("unavailable: \(answer)") }
        return database
    }

    func report(_ problem: String) { appendProblem(problem, to: work.problems) }

    /// Writes an owner that does not run into the last slot of the control block.
    private func enterDeadParticipant() {
        let descriptor = Self.openToWrite(ControlBlock.path(forDatabaseAt: work.path))
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        // An owner is the first word of its slot: a pid, here one that no process has, and an incarnation.
        var owner: UInt64 = 4_194_303 << 32 | 1
        pwrite(descriptor, &owner, 8, off_t(Layout.headerSize + (Layout.slotCount - 1) * Layout.slotSize))
    }

    private static func openToWrite(_ path: String) -> Int32 {
        #if canImport(Darwin)
            Darwin.open(path, O_WRONLY | O_CLOEXEC)
        #else
            Glibc.open(path, O_WRONLY | O_CLOEXEC)
        #endif
    }

    /// Leaks at most 20 times a second: on a fast machine, a leak in each round reaches the limit of a process before the campaign ends, and
    /// what does not grow any more is not reported.
    private func leak() {
        guard MonotonicClock.now >= nextLeak else { return }
        nextLeak = MonotonicClock.now + 50_000_000
        switch work.defect {
        case .leaksDescriptors: _ = dup(0)
        case .leaksMemory: kept.append([UInt8](repeating: UInt8(truncatingIfNeeded: rounds), count: 524_288))
        case .leaksThreads: Thread.detachNewThread { while true { sleep(1000) } }
        default: break
        }
    }

    /// Ends a round of work.
    func endRound() {
        rounds += 1
        switch work.defect {
        case .leaksDescriptors, .leaksMemory, .leaksThreads: leak()
        case .entersDeadParticipants where work.role == .observer: enterDeadParticipant()
        default: break
        }
        pause(milliseconds: work.pauseMilliseconds * .random(in: 0...1, using: &random))
    }
}

extension PeerSession {
    /// Does the work until a command arrives. An error, which must not happen, is also left in the file of problems.
    func perform(_ work: CampaignWork) throws {
        do {
            let session = try CampaignSession(work, until: { [channel] in channel.hasInput })
            if work.role == .sharedWriter {
                // These writes are not suspended, because an aborted one would count as a wrong outcome.
                let database = try session.trouble.repeating { try session.open() }
                var load = SharedWriteLoad(tasks: 4, journal: work.journal, seed: work.seed)
                load.pauseMilliseconds = Int(work.pauseMilliseconds)
                let trouble = session.trouble
                _ = try writeShared(load, as: work.author, in: database, excusing: trouble.explains)
                try database.close()
            } else {
                try session.run()
            }
        } catch {
            appendProblem("\(work.role) ended: \(error)", to: work.problems)
            throw error
        }
    }
}

/// Appends to the file of what must not happen. Safe from any thread.
func appendProblem(_ problem: String, to path: String) {
    let text = Array("\(problem)\n".utf8)
    let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    _ = write(descriptor, text, text.count)
}
