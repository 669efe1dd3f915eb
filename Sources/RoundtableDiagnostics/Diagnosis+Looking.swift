import Foundation
import GRDB
import GRDBSQLite
import RoundtableCore
import RoundtableKernel

extension Diagnosis {
    /// Inspects a database from outside, as ``DatabaseStatus/init(ofDatabaseAt:)`` does, and reports what is wrong and what to do about it.
    ///
    /// The inspection creates and changes no file, and takes no place in the control block and no turn. If a checkpoint is due, the
    /// inspection is repeated for up to a second, because a participant may be about to make that checkpoint.
    ///
    /// - Parameters:
    ///   - check: whether the content is checked, too. This reads the whole file, in one read transaction. While it lasts, the WAL cannot
    ///     start again if other processes write.
    ///   - progress: called repeatedly while the content is checked.
    /// - throws: ``SharedDatabaseError/notAFile(path:reason:)`` when there is no such file. All other problems are findings.
    public init(
        ofDatabaseAt url: URL,
        checking check: Check = .none,
        progress: @escaping () -> Void = {}
    ) throws {
        try self.init(ofDatabaseAt: url, outboxAt: nil, checking: check, progress: progress)
    }

    /// - parameter outbox: the folder of ``SharedDatabase/Options/outboxFolder``; nil: beside the database.
    package init(
        ofDatabaseAt url: URL,
        outboxAt outbox: URL?,
        checking check: Check,
        progress: @escaping () -> Void
    ) throws {
        var doctor = Doctor(path: url.path)
        do {
            var status = try DatabaseStatus(ofDatabaseAt: url, outboxAt: outbox)
            var facts = Doctor.Facts(of: status)
            let deadline = MonotonicClock.now + Doctor.secondLook
            while Doctor.isDue(status), facts.canCheckpoint, MonotonicClock.now < deadline {
                MonotonicClock.sleep(50_000_000)
                status = try DatabaseStatus(ofDatabaseAt: url, outboxAt: outbox)
                facts = Doctor.Facts(of: status)
            }
            doctor.examine(status, facts)
            if check != .none { doctor.check(try Onlooker(url), check, progress) }
        } catch let error as SharedDatabaseError {
            try doctor.refuse(error)
        } catch let error as DatabaseError {
            doctor.refuse(error)
        }
        self = doctor.diagnosis
    }
}
