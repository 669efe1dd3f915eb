import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Synchronization

/// The errors of a full disk that a process of a campaign meets. Each must name a file and say what to do. Safe from any thread.
final class DiskTrouble: Sendable {
    private let work: CampaignWork
    private let count = Mutex(0)
    // nonisolated(unsafe): only used while `count` is locked.
    private nonisolated(unsafe) let file: ProgressFile

    init(_ work: CampaignWork) throws {
        self.work = work
        file = try ProgressFile(countingAt: work.diskErrors)
    }

    /// Whether the disk may be full, and this error says so. Such an error is counted.
    func explains(_ error: any Error) -> Bool {
        guard work.mayFindDiskFull, Self.isOfFullDisk(error) else { return false }
        count.withLock { count in
            count += 1
            file.record(count)
        }
        let text = "\(error)"
        let folder = URL(fileURLWithPath: work.path).deletingLastPathComponent().path
        if !text.contains(folder) || !text.lowercased().contains("free space") {
            appendProblem("an error of a full disk that does not say where, and what to do: \(text)", to: work.problems)
        }
        return true
    }

    private static func isOfFullDisk(_ error: any Error) -> Bool {
        switch error {
        case let error as DatabaseError:
            error.resultCode == .SQLITE_FULL || error.extendedResultCode == .SQLITE_IOERR_SHMSIZE
        case OutboxError.file(_, .diskFull), SnapshotFileError.file(_, .diskFull): true
        default: false
        }
    }

    /// Repeats an access that a suspension has aborted, or a full disk has refused. Whatever it wrote must have been rolled back.
    ///
    /// - parameter isCounted: whether the access is one that is acknowledged, and that a writer with a defect may take for a success.
    func repeating<T>(isCounted: Bool = false, _ body: () throws -> T) throws -> T {
        while true {
            do {
                return try body()
            } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT {
                continue
            } catch {
                guard explains(error) else { throw error }
                switch work.defect {
                case .givesUpOnFullDisk where work.role == .writer: while true { pause(milliseconds: 1000) }
                case .acknowledgesOnFullDisk where work.role == .writer && isCounted: throw Ignored()
                default: pause(milliseconds: 10)
                }
            }
        }
    }

    /// What a writer with a defect takes for a success.
    struct Ignored: Error {}
}
