import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Value observations that may write, on a database that is suspended: their fetches are inside the gate (rule F2).
@Suite struct AbortedObservationTests {
    let folder: TemporaryFolder
    /// Other tests use other instances.
    let process = ProcessSuspension()

    init() throws { folder = try TemporaryFolder() }

    private func open(_ author: String, process: ProcessSuspension? = nil) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = process ?? self.process
        return try SharedDatabase.open(
            at: folder.file("players.sqlite"),
            schema: SharedSchema(migrator()),
            as: author,
            options: options
        )
    }

    private func add(_ name: String, to db: SharedDatabase) throws {
        try db.write { _ = try Player(name: name).inserted($0) }
    }

    private func suspend(_ db: SharedDatabase, milliseconds: Int) async -> SuspensionReport {
        await onThread { db.suspend(deadline: .now + .milliseconds(milliseconds)) }
    }

    private enum GateState { case closed, aborted }

    /// An observation whose fetch writes.
    private final class Observation: Sendable {
        let values = Shared<[Int]>([])
        let errors = Shared<[any Error]>([])
        /// While it is set, a fetch waits for this state of the gate before it writes.
        let awaited = Shared<GateState?>(nil)
        let isWaiting = Shared(false)
        let ranBehindClosedGate = Shared(false)
        private let cancellable = Shared<AnyDatabaseCancellable?>(nil)

        func start(in shared: SharedDatabase) {
            var observation = ValueObservation.tracking { [self, gate = shared.gate] db in
                if gate.isClosed { ranBehindClosedGate.change { $0 = true } }
                if let state = awaited.value {
                    isWaiting.change { $0 = true }
                    waitUntil("the gate is \(state)") { state == .closed ? gate.isClosed : gate.isAborted }
                    isWaiting.change { $0 = false }
                }
                try db.execute(sql: "UPDATE player SET name = name")
                return try Player.fetchCount(db)
            }
            observation.requiresWriteAccess = true
            let queue = DispatchQueue(label: "values")
            let started = observation.start(in: shared, scheduling: .async(onQueue: queue)) { [errors] error in
                errors.change { $0.append(error) }
            } onChange: { [values] value in
                values.change { $0.append(value) }
            }
            cancellable.change { $0 = started }
        }

        func cancel() { cancellable.value?.cancel() }
    }

    enum Trigger: CaseIterable { case start, ownCommit, otherCommit }

    @Test(arguments: Trigger.allCases)
    func anAbortedFetchIsRepeated(after trigger: Trigger) async throws {
        let (db, other) = (try open("app", process: .early()), try open("other"))
        let observation = Observation()
        defer { observation.cancel() }
        if trigger != .start {
            observation.start(in: db)
            try await eventually("the first value") { observation.values.value == [0] }
        }
        // A write that has committed is not aborted, unless its observers write.
        observation.awaited.change { $0 = trigger == .ownCommit ? .closed : .aborted }
        switch trigger {
        case .start: observation.start(in: db)
        case .ownCommit: _ = inThread { try add("A", to: db) }
        case .otherCommit: try add("A", to: other)
        }
        try await eventually("a fetch runs") { observation.isWaiting.value }
        let suspension = await suspend(db, milliseconds: 30_000)
        #expect(suspension.isReleased, "\(suspension)")
        try await eventually("the fetch writes") { !observation.isWaiting.value }
        observation.awaited.change { $0 = nil }
        db.resume()
        let count = trigger == .start ? 0 : 1
        try await eventually("the value of the aborted fetch") { observation.values.value.last == count }
        try add("B", to: db)
        try await eventually("later values") { observation.values.value.last == count + 1 }
        #expect(observation.errors.value.isEmpty)
    }

    /// Without the gate, a fetch would hold SQLite's write lock while the process is frozen.
    @Test func noFetchBeginsBehindAClosedGate() async throws {
        let (db, other) = (try open("app"), try open("other"))
        let (early, late) = (Observation(), Observation())
        defer { for observation in [early, late] { observation.cancel() } }
        early.start(in: db)
        try await eventually("the first value") { early.values.value == [0] }
        // Other observers learn of commits while the database is suspended, so a wrong fetch has time to run.
        let log = Shared(0)
        let cancellable = try other.observeChanges(on: nil) { _ in log.change { $0 += 1 } }
        defer { cancellable.cancel() }
        #expect(await suspend(db, milliseconds: 5000).outcome == .released)
        late.start(in: db)
        for number in 1...20 {
            try add("\(number)", to: other)
            try await eventually("another observer") { log.value == number }
        }
        db.resume()
        try await eventually("values") { early.values.value.last == 20 && late.values.value.last == 20 }
        for observation in [early, late] {
            #expect(!observation.ranBehindClosedGate.value)
            #expect(observation.errors.value.isEmpty)
        }
    }
}
