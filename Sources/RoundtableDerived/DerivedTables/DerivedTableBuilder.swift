import Dispatch
import Foundation
import GRDB
import RoundtableCore
import RoundtableGate
import RoundtableKernel
import Synchronization

/// Builds the incomplete derived tables that a participant declares: when it opens the database, and later in the background (rule E6). A
/// failure does not make opening fail; it is reported as an event.
final class DerivedTableBuilder: Sendable {
    /// The duration of a building transaction. Other writers wait for their turn this long.
    private static let stepTime: Nanoseconds = 10_000_000
    private static let backoff = Backoff(.milliseconds(50), upTo: .seconds(5))

    private struct State {
        var isAtWork = false
        /// Whether to look for incomplete derived tables again when the current work is done.
        var isWanted = false
        /// Whether another attempt begins after a pause.
        var isRetrying = false
        var hasReported = false
        /// The derived tables whose damage was reported.
        var damaged: Set<String> = []
        /// Whether the transaction that created the derived tables again may still be open. A read would not see its changes.
        var awaitsWriter = false
    }

    private enum Outcome {
        case done
        /// A temporary obstacle stopped the building.
        case tryAgain
    }

    private let registry: DerivedTableRegistry
    private let reporter: EventReporter
    private let state = Mutex(State())

    init?(_ registry: DerivedTableRegistry?, _ reporter: EventReporter) {
        guard let registry, !registry.derivedTables.isEmpty else { return nil }
        self.registry = registry
        self.reporter = reporter
    }

    private func report(_ event: DerivedTableEvent) { reporter.report(event) }

    /// Builds all derived tables. If building has to wait, this method returns, and building continues in the background.
    func begin(_ database: SharedDatabase) { work(on: database, Self.backoff) }

    /// Reports that `names` have to be built again, and starts building soon on another thread.
    func beginLater(_ database: SharedDatabase, rebuilding names: [String]) {
        DispatchQueue.global(qos: .utility).async { [weak self, weak database] in
            guard let self, let database else { return }
            report(.rebuilding(names))
            state.withLock { $0.awaitsWriter = true }
            work(on: database, Self.backoff)
        }
    }

    private func work(on database: SharedDatabase, _ backoff: Backoff) {
        let begins = state.withLock { state in
            state.isWanted = true
            guard !state.isAtWork else { return false }
            state.isAtWork = true
            return true
        }
        guard begins else { return }
        var outcome = Outcome.done
        repeat {
            state.withLock { $0.isWanted = false }
            outcome = build(database)
        } while state.withLock { state in
            let continues = state.isWanted && outcome == .done
            state.isAtWork = continues
            return continues
        }
        guard outcome == .tryAgain else { return }
        let isRetrying = state.withLock { state in
            defer { state.isRetrying = true }
            return state.isRetrying
        }
        if isRetrying { return }
        var following = backoff
        let pause = DispatchTimeInterval.nanoseconds(Int(following.next()))
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + pause) {
            [weak self, weak database, following] in
            guard let self, let database else { return }
            state.withLock { $0.isRetrying = false }
            work(on: database, following)
        }
    }

    private func build(_ database: SharedDatabase) -> Outcome {
        var stuck: Set<String> = []
        var pace = BuildingPace()
        var last: String?
        var current: String?
        var outcome = Outcome.done
        while true {
            do {
                current = nil
                if state.withLock({ $0.awaitsWriter }) {
                    // The writer connection is serial, so this write runs after that transaction has ended.
                    try database.write(whileSuspended: .fail) { _ in }
                    state.withLock { $0.awaitsWriter = false }
                }
                guard let one = try database.read({ db in try registry.unfinished(db, except: stuck) }) else {
                    state.withLock { $0.hasReported = false }
                    return outcome
                }
                current = one.name
                var total: Int?
                if one.name != last {
                    last = one.name
                    pace = BuildingPace()
                    total = try database.read { db in try registry.total(of: one, db) }
                }
                let step = try database.write(whileSuspended: .fail) { db in
                    try registry.build(
                        one,
                        &pace,
                        until: MonotonicClock.now.addingSaturating(Self.stepTime),
                        total: total ?? 0,
                        db
                    )
                }
                guard let step else { continue }
                state.withLock { state in
                    state.hasReported = false
                    if step.progress.isComplete { state.damaged.remove(one.name) }
                }
                report(.progress(step.progress))
                if let obstacle = step.obstacle {
                    report(.failed(obstacle))
                    stuck.insert(one.name)
                }
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
                guard let name = current else { return failed(error, database) }
                // It may be damage of this derived table alone.
                stuck.insert(name)
                outcome = .tryAgain
                if state.withLock({ $0.damaged.insert(name).inserted }) { report(.failed(error)) }
            } catch {
                return failed(error, database)
            }
        }
    }

    private func failed(_ error: any Error, _ database: SharedDatabase) -> Outcome {
        // The database was closed.
        if (error as? DatabaseError)?.resultCode == .SQLITE_MISUSE { return .done }
        // Nothing else would begin the building again in this process. The error that ends it is always reported.
        guard passes(error, database) else {
            state.withLock { $0.hasReported = false }
            report(.failed(error))
            return .done
        }
        // An obstacle is reported once while it lasts.
        let isNews = state.withLock { state in
            defer { state.hasReported = true }
            return !state.hasReported
        }
        if isNews { report(.failed(error)) }
        return .tryAgain
    }

    // Rule E6b: Rows from which nothing can be derived are narrowed down to one; those before it are kept, the state stays `building`, and
    // other derived tables are built. Opening does not fail because of that, nor of an error that may pass (a lock, a suspension, a full disk,
    // I/O, damage that FTS5 reports, a file that may not be written now, a key that is not available): building is tried again in the
    // background, at least every 5 s. Damage of one derived table does not keep others from being built. Attempts end at closing, for a
    // read-only participant, and after any other error, which is reported.

    /// Whether building may succeed later (rule E6b).
    private func passes(_ error: any Error, _ database: SharedDatabase) -> Bool {
        switch error {
        // A participant that may write gets SQLITE_READONLY as long as it is kept from that, for example by the permissions. SQLITE_CORRUPT
        // passes too, because FTS5 also reports it when the system could not read.
        case let error as DatabaseError: error.resultCode != .SQLITE_READONLY || database.role == .readWrite
        // The key's provider fails while the device is locked, for example.
        case is EncryptionError: true
        default: false
        }
    }
}
