import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableToolSupport
import Synchronization

/// Makes rounds until the process is to end, and reports (rules Z13, Z14).
final class TravelSupervisor: TravelEnding {
    private let wakeUp = MonotonicSemaphore()
    private let ending = Atomic(TravelRequest.none.rawValue)

    var request: TravelRequest { TravelRequest(rawValue: ending.load(ordering: .sequentiallyConsistent)) ?? .kill }

    /// Ends after the current transfer. The second call ends the transfer at once.
    func end() {
        let isFirst = ending.compareExchange(
            expected: TravelRequest.none.rawValue,
            desired: TravelRequest.end.rawValue,
            ordering: .sequentiallyConsistent
        ).exchanged
        if !isFirst { ending.store(TravelRequest.kill.rawValue, ordering: .sequentiallyConsistent) }
        wakeUp.signal()
    }

    /// Call it on the main thread: `rclone` gets a signal when the thread that has started it ends.
    ///
    /// - Parameters:
    ///   - path: the path of the outbox.
    ///   - interval: the pause between two rounds, in seconds; nil: there is one round.
    ///   - report: called with each status that differs from the last one.
    ///   - round: makes a round.
    /// - throws: the error of the only round; a final ``TravelProblem``.
    func run(
        _ initial: OutboxTravelStatus,
        inOutboxAt path: String,
        every interval: Double?,
        report: (OutboxTravelStatus) -> Void,
        round: () throws -> TravelRound
    ) throws {
        let file = OutboxTravelStatus.file(initial.direction, inOutboxAt: path)
        // What cannot be removed is recognized by its dead process.
        defer { (try? OpenFolder(at: path))?.removeIfPossible(file.url.lastPathComponent) }
        var monitor = TravelMonitor(initial, interval: interval ?? 0)
        write(monitor.status, to: file)
        while request == .none {
            do {
                monitor.ended(try round(), at: Date())
            } catch is RcloneStore.Ended {
                return
            } catch {
                let problem = error as? TravelProblem ?? Self.problem(error)
                if problem.isFinal || interval == nil {
                    let advice = problem.cause.advice(isRepeated: interval != nil)
                    throw ToolError("\(problem.what). \(advice).")
                }
                monitor.failed(problem, at: Date())
            }
            write(monitor.status, to: file)
            report(monitor.status)
            guard interval != nil else { return }
            let deadline = MonotonicClock.now + Nanoseconds(monitor.pause * 1e9)
            while request == .none, MonotonicClock.now < deadline { _ = wakeUp.wait(until: deadline) }
        }
    }

    private func write(_ status: OutboxTravelStatus, to file: SnapshotFile<OutboxTravelStatus>) {
        // The report is advice, and its loss changes nothing.
        _ = try? { let _: SnapshotInfo = try file.write(status.forFile) }()
    }

    private static func problem(_ error: any Error) -> TravelProblem {
        let line = ToolError.line(for: error)
        return TravelProblem(cause: .other, detail: line.withoutFullStop)
    }
}
