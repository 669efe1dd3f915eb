#if os(Linux)
    import Foundation
    import GRDB
    import Roundtable
    import RoundtableKernel
    import RoundtableTestSupport
    import Synchronization

    /// Performs the steps of the sweep in this process: as the victim, or as the participant that checks what a victim left.
    final class SweepSubject {
        private let step: SweepStep
        private let world: SweepWorld
        private let acknowledged: SweepAcknowledgements
        private var database: SharedDatabase?
        /// The database of `join`.
        private var joined: SharedDatabase?
        private var kept: [Any] = []
        /// The fault that lasts until the operation is over, if it is one.
        private var lastingFault: SweepFault?

        /// How long an observer or publisher may be silent that meets no lasting fault.
        private static let patience = Duration.seconds(3)
        /// How long one attempt to notify takes at most when a fault lasts: opening a connection is repeated until the busy timeout (W9), and
        /// the machine is loaded.
        private static let attempt = Duration.seconds(4)
        /// The same when locks are refused. SQLite tries for 10 s to begin a read whose locks it cannot have, and an observation begins with
        /// two reads.
        private static let attemptForLocks = Duration.seconds(21)
        /// After the first failure, attempts follow each other after 1 s, 2 s … (W9c). The error is reported with the first attempt that fails
        /// a second or more after the first one: with the second.
        private static let (firstPause, secondPause) = (Duration.seconds(1), Duration.seconds(2))

        init(_ step: SweepStep) throws {
            self.step = step
            world = SweepWorld(step.operation, folder: step.folder)
            acknowledged = try SweepAcknowledgements(step.progress)
        }

        func perform(_ kind: SweepStep.Kind) throws -> PeerReply {
            var report = SweepReport()
            let began = MonotonicClock.now
            switch kind {
            case .prepare: try prepare()
            case .ready: try ready()
            case .record(let door):
                switch door {
                case .calls:
                    try FaultLibrary.arm(nil, at: -1, of: "")
                    try operate(nil)
                    report.calls = try FaultLibrary.calls(FaultLibrary.disarm().counted)
                case .kernel:
                    let door = KernelDoor(nil)
                    try door.run { try operate(nil) }
                    report.calls = door.recorded
                }
            case .run(let fault): return try run(fault)
            case .recover: try recover()
            case .join: joined = try open(.before)
            case .proceed: try proceed(&report)
            case .verify(let acknowledged): try verify(acknowledged, &report)
            }
            report.milliseconds = max(report.milliseconds, Double(MonotonicClock.now - began) / 1e6)
            var reply = PeerReply()
            reply.sweep = report
            return reply
        }

        // MARK: The victim

        private func open(_ moment: SweepWorld.Moment, asOwner: Bool = false) throws -> SharedDatabase {
            try SharedDatabase.open(
                at: world.database,
                schema: world.schema(moment),
                as: "victim",
                options: asOwner ? SweepWorld.ownerOptions : SweepWorld.options
            )
        }

        private func prepare() throws {
            guard step.operation != .create else { return }
            let database = try open(.before)
            for number in 1...SweepWorld.baseTransactions(step.operation) {
                try database.write { try SweepWorld.insert(number, by: "base", $0) }
            }
            if step.operation == .buildDerivedTable {
                var statements = RandomStatements(SeededGenerator(seed: 1))
                for _ in 0..<20 { try database.write { try statements.transaction($0) } }
            }
            if step.operation == .drain { try submit(1...3) }
            try database.close()
        }

        private func ready() throws {
            switch step.operation {
            case .create, .open, .migrate, .writeFile, .submit, .drain, .buildDerivedTable: break
            default:
                let database = try open(.before)
                self.database = database
                guard step.operation != .prune else { break }
                try write(1, database)
                if [.checkpoint, .truncate, .close].contains(step.operation) {
                    for _ in 0..<4 {
                        try database.write { try $0.execute(sql: "INSERT INTO filling VALUES (NULL, zeroblob(20000))") }
                    }
                }
                if step.operation == .resume { try suspend(database) }
            }
            if step.operation == .writeFile { try writeFile(1) }
        }

        private func run(_ fault: SweepFault) throws -> PeerReply {
            var taken = 0
            if case .errnoForever = fault.action, fault.door == .calls { lastingFault = fault }
            var failure: (any Error)?
            switch fault.door {
            case .calls:
                try FaultLibrary.arm(fault.action, at: fault.call, of: fault.name)
                do { try operate(step.defect) } catch { failure = error }
                taken = FaultLibrary.disarm().taken
            case .kernel:
                let door = KernelDoor(fault)
                do { try door.run { try operate(step.defect) } } catch { failure = error }
                taken = door.isTaken
            }
            guard let failure else { return PeerReply(number: taken) }
            if step.defect == .traps { fatalError("on purpose") }
            if step.defect == .hangs { while true { sleep(100) } }
            var reply = PeerReply(failure: failure)
            reply.number = taken
            return reply
        }

        private func operate(_ defect: SweepDefect?) throws {
            if defect == .littersFolder {
                try Data().write(to: world.folder.appendingPathComponent("shared.sqlite.4194304-2-3-4-5.new"))
            }
            do { try operateOnce(defect) } catch {
                guard defect == .hidesErrors else { throw error }
                acknowledged.record(2)
            }
        }

        private func operateOnce(_ defect: SweepDefect?) throws {
            switch step.operation {
            case .create, .open, .migrate: database = try open(.after)
            case .buildDerivedTable:
                database = try open(.after)
                try waitForDerivedTables(database!)
                if defect == .skipsRows { try database!.write { try DerivedTableWorld.changeBehindDerivedTables($0) } }
            case .write, .prune:
                if defect == .acknowledgesEarly { acknowledged.record(2) }
                if defect == .splitsTransactions {
                    for part in 0..<2 {
                        try database!.write {
                            try $0.execute(sql: PeerSchema.insertEntry, arguments: ["victim", 2, part])
                        }
                    }
                } else {
                    try write(2, database!)
                }
                if defect == .prunesTooMuch {
                    // The newest change but two: later writes prune only older ones.
                    let sql = "SELECT max(sequence) - 2 FROM roundtable_history"
                    try database!.write {
                        try $0.execute(sql: "DELETE FROM roundtable_history WHERE sequence = (\(sql))")
                    }
                }
            case .writeShared: try writeShared(database!)
            case .observe: try observe(database!, isDeaf: defect == .missesNotifications)
            case .checkpoint: try database!.checkpoint(.passive)
            case .truncate: try database!.checkpoint(.truncate)
            case .park: try suspend(database!)
            case .resume:
                database!.resume()
                try write(2, database!)
            case .publish: try publish(database!)
            case .writeFile: try writeFile(2)
            case .submit: try submit(1...2)
            case .drain:
                database = try open(.after, asOwner: true)
                try waitForDrain(database!, within: .seconds(2))
            case .close:
                try database!.close()
                database = nil
            }
        }

        private func write(_ number: Int, _ database: SharedDatabase) throws {
            try database.write { try SweepWorld.insert(number, by: "victim", $0) }
            acknowledged.record(number)
        }

        private func writeShared(_ database: SharedDatabase) throws {
            let acknowledged = acknowledged
            try blocking {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 2...4 {
                        group.addTask {
                            try await database.write { try SweepWorld.insert(number, by: "victim", $0) }
                            acknowledged.record(number)
                        }
                    }
                    // All of them, so that no task uses the database after this.
                    var first: (any Error)?
                    while let result = await group.nextResult() {
                        if case .failure(let error) = result { first = first ?? error }
                    }
                    if let first { throw first }
                }
            }
        }

        private func observe(_ database: SharedDatabase, isDeaf: Bool) throws {
            let box = Observed(database, missesEvents: step.defect == .missesEvents)
            let changes = try database.observeChanges(on: DispatchQueue(label: "changes")) { _ in
                if !isDeaf { box.changes.add(1, ordering: .relaxed) }
            }
            let count = ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT count(*) FROM entry") ?? 0 }
            let rows = count.start(
                in: database,
                scheduling: .async(onQueue: DispatchQueue(label: "values")),
                onError: { error in box.error.withLock { $0 = "\(error)" } },
                onChange: { box.rows.store($0, ordering: .relaxed) }
            )
            kept += [changes, rows]
            try write(2, database)
            try heard("the observations notify", box) {
                if let error = box.error.withLock({ $0 }) { throw TestKitError("the observation ended: \(error)") }
                return box.changes.load(ordering: .relaxed) > 0 && box.rows.load(ordering: .relaxed) == 10
            }
        }

        /// Waits until an observer or publisher is heard of. Once open, it tries again without a limit when it cannot read. So when a fault
        /// lasts, it must report an event by which a program learns of that, be heard of when the fault has ended, and report that end.
        private func heard(_ what: String, _ box: Observed, _ condition: () throws -> Bool) throws {
            guard let lastingFault else { return try eventually("silent: \(what)", within: Self.patience, condition) }
            let attempt = lastingFault.name == "lock" ? Self.attemptForLocks : Self.attempt
            var isHeard = false
            try eventually("silent: \(what), or say why not", within: attempt * 2 + Self.firstPause) {
                isHeard = try condition()
                return isHeard || box.isInterrupted
            }
            if isHeard { return }
            _ = FaultLibrary.disarm()
            try eventually(
                "silent: \(what), now that the fault is over",
                within: Self.secondPause + Self.attempt,
                condition
            )
            try eventually("silent: the end of the interruption is reported", within: Self.patience) {
                !box.isInterrupted
            }
            throw TestKitError("\(what) only when the fault is over")
        }

        private func suspend(_ database: SharedDatabase) throws {
            let suspension = database.suspend(deadline: .now + .seconds(2))
            guard suspension.outcome == .released else { throw TestKitError("\(suspension)") }
        }

        private func publish(_ database: SharedDatabase) throws {
            let box = Observed(database, missesEvents: step.defect == .missesEvents)
            let publisher = try database.publish(
                to: SnapshotFile<PeerSnapshotValue>(at: world.snapshot, as: "victim"),
                atMostEvery: .milliseconds(1),
                onPublish: { _ in box.changes.add(1, ordering: .relaxed) }
            ) { db in
                let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM entry WHERE author = 'victim'") ?? 0
                return PeerSnapshotValue(number: count / 2, size: 3000)
            }
            kept.append(publisher)
            try write(2, database)
            try heard("the database is published", box) {
                if let error = box.error.withLock({ $0 }) { throw TestKitError("not published: \(error)") }
                let file = SnapshotFile<PeerSnapshotValue>(at: world.snapshot, as: "victim")
                guard box.changes.load(ordering: .relaxed) > 0 else { return false }
                return try file.read().value?.number == 2
            }
        }

        private func writeFile(_ number: Int) throws {
            let file = SnapshotFile<PeerSnapshotValue>(at: world.snapshot, as: "victim")
            try file.write(PeerSnapshotValue(number: number, size: 3000))
            acknowledged.record(number)
        }

        private func submit(_ numbers: ClosedRange<Int>) throws {
            for number in numbers {
                var options = CommandOutbox.Options()
                options.durability = number == 1 ? .process : .machine
                let outbox = try CommandOutbox(forDatabaseAt: world.database, as: "sender-1", options: options)
                let command = PeerCommandEntry(sender: 1, n: number)
                try outbox.submit(command, id: command.id)
                if step.operation == .submit { acknowledged.record(number) }
            }
        }

        private func waitForDrain(_ database: SharedDatabase, within time: Duration) throws {
            try eventuallyOr("the commands are applied", within: time) {
                try database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM applied") } == 3
            }
        }

        private func waitForDerivedTables(_ database: SharedDatabase) throws {
            try eventuallyOr("the derived tables are built", within: .seconds(12)) {
                try database.read { db in
                    try String.fetchAll(db, sql: "SELECT state FROM roundtable_extensions")
                } == Array(repeating: "ready", count: SweepWorld.derivedTables.count)
            }
        }

        private func eventuallyOr(_ what: String, within time: Duration, _ condition: () throws -> Bool) throws {
            try eventually(what, within: time, condition)
        }

        // MARK: Afterwards

        /// The victim itself goes on when the fault is gone.
        private func recover() throws {
            let asOwner = step.operation == .drain
            if database == nil { database = try open(.after, asOwner: asOwner) }
            let database = database!
            database.resume()
            try database.write { try SweepWorld.insert(50, by: "victim", $0) }
            switch step.operation {
            case .buildDerivedTable: try waitForDerivedTables(database)
            case .drain: try waitForDrain(database, within: .seconds(10))
            case .writeFile: try writeFile(3)
            default: break
            }
        }

        private func proceed(_ report: inout SweepReport) throws {
            guard let joined else { return }
            self.joined = nil
            do {
                try joined.write { try SweepWorld.insert(51, by: "beside", $0) }
            } catch let error as SharedDatabaseError where step.operation == .migrate {
                // The schema of this participant is too old now.
                report.problems += "\(error)".contains("newer") ? [] : ["\(error)"]
            }
            try joined.close()
        }

        private func verify(_ bits: Int, _ report: inout SweepReport) throws {
            let began = MonotonicClock.now
            let asOwner = [.submit, .drain].contains(step.operation)
            let database = try SharedDatabase.open(
                at: world.database,
                schema: world.schema(.after),
                as: "inspector",
                options: asOwner ? SweepWorld.ownerOptions : SweepWorld.options
            )
            self.database = database
            try database.write { try SweepWorld.insert(52, by: "inspector", $0) }
            report.milliseconds = Double(MonotonicClock.now - began) / 1e6
            if step.operation == .buildDerivedTable { try waitForDerivedTables(database) }
            if asOwner { try waitForCommands(bits, database) }
            report.problems += try database.read { try world.problems($0, acknowledged: bits) }
            if [.publish, .writeFile].contains(step.operation) { try checkFile(bits, &report) }
            // The operation itself, in this process.
            try database.checkpoint(.truncate)
            try suspend(database)
            database.resume()
            try database.write { try SweepWorld.insert(53, by: "inspector", $0) }
            if asOwner { try submitAgain() }
            try database.close()
            self.database = nil
            report.problems += try world.leftOver().map { "an unfinished file is left: \($0)" }
        }

        private func waitForCommands(_ bits: Int, _ database: SharedDatabase) throws {
            let expected = step.operation == .drain ? 3 : bits.nonzeroBitCount
            try eventuallyOr("\(expected) commands are applied", within: .seconds(10)) {
                try database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM applied") ?? 0 } >= expected
            }
        }

        private func checkFile(_ bits: Int, _ report: inout SweepReport) throws {
            let file = SnapshotFile<PeerSnapshotValue>(at: world.snapshot, as: "inspector")
            let lowest = step.operation == .writeFile ? Int.bitWidth - 1 - bits.leadingZeroBitCount : 0
            switch try file.read() {
            case .value(let value, _):
                if !value.isWhole { report.problems.append("half a value") }
                if value.number < lowest { report.problems.append("lost: value \(lowest); there is \(value.number)") }
            case .absent where lowest <= 0: break
            case let other: report.problems.append("\(other) instead of a value")
            }
            try file.write(PeerSnapshotValue(number: 60, size: 3000))
            // A publisher that is still there may have written again.
            guard let value = try file.read().value, value.number == 60 || step.operation == .publish && value.isWhole
            else { return report.problems.append("no value after a write") }
        }

        /// A sender that comes after the dead one.
        private func submitAgain() throws {
            let outbox = try CommandOutbox(forDatabaseAt: world.database, as: "sender-2")
            let command = PeerCommandEntry(sender: 1, n: 55)
            try outbox.submit(command, id: command.id)
            guard case .applied = try outbox.outcome(of: command.id, within: .seconds(10)) else {
                throw TestKitError("a later command is not applied")
            }
        }
    }

    /// What observers, a publisher and the events of a database have said.
    private final class Observed: Sendable {
        let changes = Atomic(0)
        let rows = Atomic(0)
        let error = Mutex<String?>(nil)
        private let interrupted = Atomic(false)

        /// Whether the last report to the program was that observers are not notified, and not that they are again.
        var isInterrupted: Bool { interrupted.load(ordering: .acquiring) }

        init(_ database: SharedDatabase, missesEvents: Bool) {
            if missesEvents { return }
            database.reporter.add(
                EventDelivery("sweep", capacity: 16) { [weak self] stamped in
                    guard let self else { return }
                    switch stamped.event {
                    case ObservationEvent.interrupted: interrupted.store(true, ordering: .releasing)
                    case ObservationEvent.resumed: interrupted.store(false, ordering: .releasing)
                    case PublishingEvent.failed(_, let error): self.error.withLock { $0 = "\(error)" }
                    default: break
                    }
                }
            )
        }
    }

    /// The acknowledged transactions as bits of a `ProgressFile`.
    final class SweepAcknowledgements: Sendable {
        private let bits = Mutex(0)
        // nonisolated(unsafe): only used while `bits` is locked.
        private nonisolated(unsafe) let file: ProgressFile

        init(_ path: String) throws { file = try ProgressFile(countingAt: path) }

        /// Safe from any thread.
        func record(_ number: Int) {
            bits.withLock { bits in
                bits |= 1 << number
                file.record(bits)
            }
        }
    }
#endif
