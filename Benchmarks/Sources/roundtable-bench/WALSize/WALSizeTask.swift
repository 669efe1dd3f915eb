import Foundation
import Synchronization

/// What one process of a `wal-size` trial does, from when it is told until its input ends.
struct WALSizeTask: Codable {
    enum Role: String, Codable {
        /// Commits without pause.
        case writer
        /// Begins a read transaction when the one before has ended.
        case reader
        /// Begins one, and stays in it.
        case frozenReader = "frozen-reader"
    }

    var role: Role
    var side: Side
    var path = ""
    /// Of its rows.
    var author: Int
    var workload: Workload
    /// How long each read transaction lasts.
    var holdMilliseconds: Double
    /// Whether a reader computes meanwhile, instead of sleeping.
    var computes: Bool

    var name: String { role == .frozenReader ? role.rawValue : "\(role.rawValue)-\(author)" }

    /// What a frozen reader says when it is in its transaction.
    static let inside = "inside\n"
}

/// What one process of a `wal-size` trial saw.
struct WALSizeResult: Codable {
    var commits = 0
    var reads = 0
    var errors = 0
    var firstError: String?
    /// Of commits, from the call to the return.
    var times = Latencies()
    /// What the library told this process of readers that hold checkpoints up.
    var reports: [GrowthReport] = []

    mutating func fail(_ error: any Error) {
        errors += 1
        firstError = firstError ?? "\(error)"
    }
}

/// The WAL grows, and this is the participant that it grows for.
struct GrowthReport: Codable {
    /// On the clock that all processes share.
    var time: Nanoseconds
    var culprit: String
    var pid: Int32
}

extension WALSizeTask {
    func openContestant(_ reports: GrowthReports) throws -> any Contestant {
        var settings = ContestantSettings()
        settings.name = name
        guard side == .ours else { return try side.open(path, settings) }
        return try SharedDatabaseContestant(path, settings, configure: reports.follow)
    }

    func run(_ contestant: any Contestant, _ schedule: Schedule, until isOver: () -> Bool) -> WALSizeResult {
        var result = WALSizeResult()
        Clock.sleep(until: schedule.start)
        switch role {
        case .writer:
            var writer = WorkloadWriter(workload, author: author)
            while !isOver() {
                let requested = Clock.now
                do {
                    try writer.commit(contestant) {}
                    result.commits += 1
                    result.times.record(Clock.now - requested)
                } catch {
                    result.fail(error)
                }
            }
        case .reader:
            let hold = Nanoseconds(seconds: holdMilliseconds / 1e3)
            while !isOver() {
                do {
                    try contestant.read(id: 1) {
                        let end = Clock.now + hold
                        if computes { while Clock.now < end {} } else { Clock.sleep(until: end) }
                    }
                    result.reads += 1
                } catch {
                    result.fail(error)
                }
            }
        case .frozenReader:
            do {
                try contestant.read(id: 1) {
                    FileHandle.standardOutput.write(Data(Self.inside.utf8))
                    while !isOver() { Clock.sleep(until: Clock.now + 10_000_000) }
                }
            } catch {
                result.fail(error)
            }
        }
        return result
    }
}

/// Whether this process's standard input has ended: its parent wants it to come to an end, or is gone.
final class InputEnd: Sendable {
    private let flag = Atomic(false)

    var hasCome: Bool { flag.load(ordering: .relaxed) }

    init() {
        Thread.detachNewThread { [self] in
            while readLine() != nil {}
            flag.store(true, ordering: .relaxed)
        }
    }
}
