import Foundation
import GRDB
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Real child processes on one database in a temporary folder, under faults, with a record of their transactions.
///
/// ```swift
/// await Fleet.runRole(["writer": { worker in … }])          // at the top of `main`, in the program of the children
///
/// let report = try Fleet.run { fleet in
///     try fleet.start("writer", count: 4)
///     try fleet.carryOut(FaultPlan([(.kill, 1), (.stop, 1)]))
///     try fleet.waitForEnd()
///     return try fleet.report()
/// }
/// ```
///
/// A child runs a closure that its program registers under a name (a role), or any program, such as a script. The children end, and the folder
/// is removed, when ``run(seed:disk:program:test:_:)`` returns or throws. Only one thread at a time may use a fleet.
public final class Fleet {
    /// The seed of the faults and of the workers: from the environment variable `ROUNDTABLE_SEED`, or a new one.
    public let seed: UInt64
    /// The folder that the workers share.
    public let folder: URL
    private let notes: URL
    private let points: URL
    private let temporary: TemporaryFolder
    private let program: Program
    private let test: String
    private var disk: LimitedDisk?
    private var members: [Member] = []
    private var lastNumber = 0
    private let beginning = ContinuousClock.now
    private var faults: [String] = []
    private var skipped: [String] = []
    private var convictions: [String] = []
    private let police: Police?

    /// The program that has the roles.
    public struct Program: Sendable {
        var url: URL
        var arguments: [String]

        /// - Parameters:
        ///   - url: the URL of the executable.
        ///   - arguments: the arguments with which the program comes to ``Fleet/runRole(_:)``.
        public init(_ url: URL, arguments: [String] = []) {
            self.url = url
            self.arguments = arguments
        }

        /// The running program itself.
        public static var current: Program { Program(ownExecutable) }

        /// The same program with other arguments.
        public func running(_ arguments: [String]) -> Program { Program(url, arguments: arguments) }

        /// A program of the same package, beside the running test program or program.
        public static func beside(_ name: String, arguments: [String] = []) -> Program {
            #if canImport(Darwin)
                let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }
                let place = bundle?.bundleURL ?? ownExecutable
            #else
                let place = ownExecutable
            #endif
            return Program(place.deletingLastPathComponent().appendingPathComponent(name), arguments: arguments)
        }

        private static var ownExecutable: URL {
            let link = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            return link.map { URL(fileURLWithPath: $0) } ?? Bundle.main.executableURL
                ?? URL(fileURLWithPath: CommandLine.arguments[0])
        }
    }

    /// A child that is kept running.
    private struct Member {
        var name: String
        var number: Int
        var process: ChildProcess
        /// Starts the successor of a killed one; nil for programs that are not started again.
        var role: (name: String, arguments: [String: String], group: Worker.Group)?
        /// The number of its first transaction.
        var firstIndex = 0
        var hasEnded = false
    }

    private init(seed: UInt64?, disk: Disk, program: Program, test: String) throws {
        self.seed = seed ?? SeededGenerator.chosenSeed ?? UInt64.random(in: 0...UInt64.max)
        self.program = program
        self.test = test
        temporary = try TemporaryFolder()
        folder = temporary.url.appendingPathComponent("shared", isDirectory: true)
        notes = temporary.url.appendingPathComponent("notes", isDirectory: true)
        points = temporary.url.appendingPathComponent("points", isDirectory: true)
        for one in [folder, notes, points] {
            try FileManager.default.createDirectory(at: one, withIntermediateDirectories: true)
        }
        if case .limited(let bytes) = disk { self.disk = LimitedDisk(at: folder, bytes: bytes) }
        police = try Police()
    }

    /// Makes a fleet, and ends it when `body` returns or throws.
    ///
    /// - Parameters:
    ///   - seed: by default the one that the environment names, else a new one.
    ///   - disk: the disk that the folder of the fleet is on.
    ///   - program: the program of the roles; by default this one.
    ///   - test: the name of the test, for the command that replays it.
    ///   - body: starts children, carries out faults, and checks.
    /// - throws: what `body` throws, with the seed and that command.
    public static func run<T>(
        seed: UInt64? = nil,
        disk: Disk = .ordinary,
        program: Program = .current,
        test: String = #function,
        _ body: (Fleet) throws -> T
    ) throws -> T {
        let fleet = try Fleet(seed: seed, disk: disk, program: program, test: test)
        defer { fleet.end() }
        do {
            return try body(fleet)
        } catch {
            throw FleetError(
                "\(error)\nfaults:\n\(fleet.faults.suffix(40).map { "  " + $0 }.joined(separator: "\n"))\n"
                    + "seed 0x\(String(fleet.seed, radix: 16)); to run it again: \(fleet.replay)"
            )
        }
    }

    /// Starts children of one role, carries out faults until they have ended, and checks what they recorded.
    ///
    /// - Parameters:
    ///   - role: the name of the role.
    ///   - processes: the number of children.
    ///   - arguments: what each finds in ``Worker/arguments``.
    ///   - faults: by default, a child is killed or, four times as often, stopped, some twenty times a second.
    ///   - seed: by default the one that the environment names, else a new one.
    ///   - program: the program of the roles; by default this one.
    ///   - timeout: how long the faults, and then the children, may take.
    ///   - test: the name of the test, for the command that replays it.
    /// - throws: `FleetError` when a child ends with an error, or when the children do not end in time.
    public static func check(
        _ role: String,
        processes: Int,
        arguments: [String: String] = [:],
        faults: FaultPlan = FaultPlan(count: .max),
        seed: UInt64? = nil,
        program: Program = .current,
        within timeout: Duration = .seconds(300),
        test: String = #function
    ) throws -> FleetReport {
        try run(seed: seed, program: program, test: test) { fleet in
            try fleet.start(role, count: processes, arguments: arguments)
            try fleet.carryOut(faults, within: timeout)
            try fleet.waitForEnd(within: timeout)
            return try fleet.report()
        }
    }

    private func end() {
        for member in members { member.process.end() }
        police?.end()
        disk?.unmount()
        temporary.remove()
    }

    // MARK: Children

    /// Starts children that run a role. They record their first transactions together (``Worker/record(_:_:)``).
    ///
    /// - Parameters:
    ///   - role: the name of the role.
    ///   - count: the number of children.
    ///   - arguments: what each finds in ``Worker/arguments``.
    public func start(_ role: String, count: Int = 1, arguments: [String: String] = [:]) throws {
        let group = Worker.Group(number: lastNumber + 1, count: count)
        for _ in 0..<count { members.append(try spawn(role, arguments, group, firstIndex: 0)) }
    }

    /// Starts any other program, such as a script. It finds the folder in the environment variable `ROUNDTABLE_FLEET_FOLDER`, and is not
    /// started again when it is killed. Its input is empty, and ends with the fleet.
    public func start(program: URL, arguments: [String] = [], environment: [String: String] = [:]) throws {
        let name = program.lastPathComponent
        let process = try launch(program, arguments, environment, name: name)
        members.append(Member(name: name, number: lastNumber, process: process))
    }

    private func spawn(_ role: String, _ arguments: [String: String], _ group: Worker.Group, firstIndex: Int) throws
        -> Member
    {
        let assignment = Worker.Assignment(
            number: lastNumber + 1,
            folder: folder,
            notes: notes,
            seed: seed,
            arguments: arguments,
            firstIndex: firstIndex,
            group: group
        )
        let environment = [
            Worker.roleVariable: role,
            Worker.assignmentVariable: String(decoding: try JSONEncoder().encode(assignment), as: UTF8.self),
        ]
        let process = try launch(program.url, program.arguments, environment, name: role)
        return Member(
            name: role,
            number: lastNumber,
            process: process,
            role: (role, arguments, group),
            firstIndex: firstIndex
        )
    }

    private func launch(_ program: URL, _ arguments: [String], _ environment: [String: String], name: String) throws
        -> ChildProcess
    {
        lastNumber += 1
        let own = [
            "ROUNDTABLE_FLEET_FOLDER": folder.path, FaultPoint.variable: points.path,
            // Without this, a crashed child ends only after a minute of symbolication.
            "SWIFT_BACKTRACE": "enable=no",
        ]
        return try ChildProcess(
            executable: program,
            arguments: arguments,
            environment: own.merging(police?.environment ?? [:]) { $1 }.merging(environment) { $1 },
            errorOutput: notes.appendingPathComponent("\(lastNumber)-\(name).output"),
            outputToErrors: true
        )
    }

    /// Finds the children that have ended.
    ///
    /// - throws: when one has ended by an error.
    private func reap() throws {
        for index in members.indices where !members[index].hasEnded && !members[index].process.isRunning {
            members[index].hasEnded = true
            let exit = try members[index].process.waitForExit()
            guard exit != .status(0) else { continue }
            let member = members[index]
            throw FleetError(
                "\(member.name), worker \(member.number): \(exit): \(member.process.errorText.suffix(4_000))"
            )
        }
    }

    /// Waits until all children have ended by themselves.
    ///
    /// - throws: `FleetError` when one ends with an error, or when they do not end in time.
    public func waitForEnd(within timeout: Duration = .seconds(300)) throws {
        let deadline = ContinuousClock.now + timeout
        while true {
            try reap()
            if members.allSatisfy(\.hasEnded) { return }
            guard ContinuousClock.now < deadline else { throw notEnded(after: timeout) }
            usleep(2_000)
        }
    }

    private func notEnded(after timeout: Duration) -> FleetError {
        let names = members.filter { !$0.hasEnded }.map { "\($0.name) (worker \($0.number))" }
        return FleetError(
            "after \(timeout), these have not ended: \(names.joined(separator: ", ")). Look for what they wait for, or give them more time."
        )
    }

    // MARK: Faults

    /// Carries out the faults of a plan. It returns when the plan is done, or all children have ended.
    ///
    /// - Parameters:
    ///   - plan: the faults, and the pauses between them.
    ///   - timeout: how long it may take. A plan of many faults needs more, and so do children that run for long.
    /// - throws: `FleetError` when a child ends with an error, or when the plan is not done and the children have not ended in time.
    public func carryOut(_ plan: FaultPlan, within timeout: Duration = .seconds(300)) throws {
        let deadline = ContinuousClock.now + timeout
        for event in plan.events(seed: seed) {
            let moment = ContinuousClock.now + event.pause
            while ContinuousClock.now < moment {
                try reap()
                guard ContinuousClock.now < deadline else { break }
                usleep(UInt32(max(1, min(2_000, (moment - .now) / .microseconds(1)))))
            }
            try reap()
            let running = members.indices.filter { !members[$0].hasEnded }
            guard !running.isEmpty else { return }
            guard ContinuousClock.now < deadline else { throw notEnded(after: timeout) }
            try carryOut(event, on: running[Int(event.victim % UInt64(running.count))])
        }
    }

    private func carryOut(_ event: FaultPlan.Event, on victim: Int) throws {
        let member = members[victim]
        let whom = "\(member.name), worker \(member.number)"
        switch event.fault {
        case .kill:
            log(event, whom)
            try member.process.killAndReap()
            members[victim].hasEnded = true
            guard let role = member.role else { return }
            let last = try Journal.lastIndex(ofWorker: member.number, in: notes)
            let next = last.map { $0 + 1 } ?? member.firstIndex
            members[victim] = try spawn(role.name, role.arguments, role.group, firstIndex: next)
        case .stop:
            log(event, whom)
            // The worker may end before it stops.
            member.process.signal(SIGSTOP)
            Self.wait(event.duration)
            member.process.resume()
        case .suspend:
            guard let police else { return skipped.append("suspend: only on Linux") }
            log(event, whom)
            convictions += try police.freeze(member.process.pid, for: event.duration)
        case .delay(let name):
            if try FaultPoint.arm(name, for: event.duration, in: points) { log(event, "the next to pass") }
        case .diskFull:
            guard let disk else { return skipped.append("disk full: the fleet has no file system of its own") }
            log(event, "all")
            try disk.fill()
            Self.wait(event.duration)
            disk.empty()
        }
    }

    private func log(_ event: FaultPlan.Event, _ whom: String) {
        let time = (ContinuousClock.now - beginning) / .milliseconds(1)
        faults.append("\(time.rounded() / 1_000) s: \(event.fault): \(whom)")
    }

    private static func wait(_ time: Duration) {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end {
            usleep(UInt32(max(1, min(100_000, (end - .now) / .microseconds(1)))))
        }
    }

    // MARK: Results

    /// The command that runs this test again, with this seed.
    public var replay: String { ReplayCommand.text(seed: seed, test: test) }

    /// What the workers have recorded so far.
    public func history() throws -> RecordedHistory { try RecordedHistory(journalsIn: notes) }

    /// Reads everything that a workload has written, as worker 0, so that the check finds what was lost. Call it when the workers have ended.
    public func finish(_ workload: some Workload, in database: some DatabaseWriter) throws {
        let journal = try Journal(worker: 0, in: notes)
        let index = try journal.begin([])
        try journal.end(index, .committed, database.write { try workload.finish($0) })
    }

    /// Checks the recorded transactions, and reports what was done and found.
    ///
    /// - parameter findings: what ``Invariants`` found.
    public func report(findings: [String] = []) throws -> FleetReport {
        FleetReport(
            seed: seed,
            replay: replay,
            faults: faults,
            skipped: skipped,
            convictions: convictions,
            check: HistoryChecker.check(try history()),
            findings: findings
        )
    }
}

/// The suspension police of a fleet, where there is one.
private final class Police {
    #if os(Linux)
        private let police: SuspensionPolice

        init?() throws {
            var terms = SuspensionTerms()
            terms.punishment = .report
            police = try SuspensionPolice(terms)
        }

        var environment: [String: String] { police.environment }

        func freeze(_ pid: Int32, for duration: Duration) throws -> [String] {
            try police.freeze(pid, for: duration).convictions.map(\.description)
        }

        func end() { police.end() }
    #else
        init?() throws { return nil }
        var environment: [String: String] { [:] }
        func freeze(_ pid: Int32, for duration: Duration) throws -> [String] { [] }
        func end() {}
    #endif
}
