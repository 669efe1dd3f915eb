import Dispatch
import RoundtableCore
import RoundtableFiles
import RoundtableGate
import RoundtableKernel
import Synchronization

final class SnapshotPublishers: DatabaseCompanion {
    private let all = Mutex<[ObjectIdentifier: SnapshotPublishing]>([:])

    private var present: [SnapshotPublishing] { all.withLock { Array($0.values) } }

    func add(_ publishing: SnapshotPublishing) { all.withLock { $0[ObjectIdentifier(publishing)] = publishing } }

    func remove(_ publishing: SnapshotPublishing) {
        // This may be the last reference to the publishing, and to the database. It is released outside of the lock.
        let removed = all.withLock { $0.removeValue(forKey: ObjectIdentifier(publishing)) }
        withExtendedLifetime(removed) {}
    }

    /// Publishes the last contents of the files. Does nothing if the calling thread is inside an access, because it could not read
    /// then.
    func databaseWillClose(isWithinAccess: Bool) {
        if isWithinAccess { return }
        for publishing in present { publishing.flush() }
    }

    func databaseDidClose() { for publishing in present { publishing.end() } }

    func databaseLostFile() { databaseDidClose() }

    func databaseStaysOpen() { gateWillOpen() }

    /// Makes all files hold the present state. When this returns, `onPublish` was called for each file that was written.
    ///
    /// - throws: the first of the publishers' errors, after all publishers have tried.
    func publish() throws {
        var first: (any Error)?
        for publishing in present {
            do {
                _ = try publishing.publishTelling()
                publishing.waitForTelling()
            } catch SnapshotFileError.publishingEnded {
                // This publisher has ended meanwhile.
            } catch {
                first = first ?? error
            }
        }
        if let first { throw first }
    }

    // Rule V9: When the gate has closed and the last write of the process has left, a value that is due is published within the deadline,
    // before connections are closed (W8): within all but a tenth of the time that is left, or half of it if they are to be closed. This
    // takes no lock but a read's. It does not fetch if it was notified of nothing that it has not fetched, the file is whole and is the one
    // that it wrote or found, nothing was committed since it looked (N7), and its connection had attached no other database.

    /// Publishes all files, each on a thread of its own (rule V9). A publisher that is not ready by the deadline writes nothing any more.
    func gateDidClose(_ gate: SuspensionGate, until deadline: Nanoseconds) -> [SuspensionReport.Access] {
        let publishers = present
        if publishers.isEmpty { return [] }
        let done = MonotonicSemaphore()
        let isOver = Atomic(false)
        for publishing in publishers {
            publishing.suspend {
                !isOver.load(ordering: .acquiring) && MonotonicClock.now < deadline
            } completion: {
                done.signal()
            }
        }
        var remaining = publishers.count
        while remaining > 0, gate.isToBeClosed {
            let time = deadline.subtractingSaturating(MonotonicClock.now)
            if time == 0 { break }
            if done.wait(upTo: min(time, Self.interval)) { remaining -= 1 }
        }
        isOver.store(true, ordering: .releasing)
        return []
    }

    private static let interval: Nanoseconds = 10_000_000

    func gateWillOpen() { for publishing in present { publishing.resume() } }
}

extension SharedDatabase {
    var publishers: SnapshotPublishers { companion(SnapshotPublishers.self) }
}

package final class PublishingFeature: DatabaseFeature {
    private let publishers = SnapshotPublishers()

    package init(_ opening: inout DatabaseOpening) {}

    package var databaseCompanion: (any DatabaseCompanion)? { publishers }
}
