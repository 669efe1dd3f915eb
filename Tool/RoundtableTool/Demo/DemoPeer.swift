import ArgumentParser
import Dispatch
import Foundation
import GRDB
import Roundtable
import RoundtableToolSupport
import Synchronization

/// A report of a process of the demo to its parent: one line of JSON.
struct PeerReport: Codable, Equatable, Sendable {
    enum Phase: String, Codable, Sendable {
        case ready, opened, running
        /// The process has done its work, and waits for the others.
        case rested
        case done
    }

    var phase: Phase
    /// The number of commits of a writer, reads of a reader, or commands of an interactive widget.
    var count = 0
    var p50: UInt64 = 0
    var p99: UInt64 = 0
    var longestWait: UInt64 = 0
    /// The duration of opening, including the creation of the database or the wait for it, in nanoseconds. All times here are in
    /// nanoseconds.
    var opening: UInt64 = 0
    var errors = 0
    var firstError: String?
    /// What a reader has seen; nil for other roles.
    var seen: DemoWidget.Seen?
    /// The report of an interactive widget; nil for other roles.
    var interactive: DemoInteractiveWidget.Report?
    /// The number of times that the app has written the snapshot file; nil for other processes.
    var snapshots: Int?

    var line: String { PrintedJSON.text(self) }
}

/// The command of a process of the demo. It obeys `PeerCues`, and writes `PeerReport`s to its standard output.
struct DemoPeerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "demo-peer", shouldDisplay: false)

    @Option var path: String
    @Option var name: String
    @Option var role: String

    func run() throws {
        guard let role = DemoCast.Player.Role(rawValue: role) else { throw ValidationError("Unknown role.") }
        let cues = PeerCues()
        Terminal.write(PeerReport(phase: .ready).line)
        guard cues.waitForOpen() else { return }
        var work = PeerWork(url: URL(fileURLWithPath: path), name: name, cues: cues)
        work.run(as: role)
    }
}

/// The work of a process of the demo. A writer writes without pause. A reader reads repeatedly, and is a widget that shows the last
/// entry. An interactive widget never opens the database, and submits the entries that its user logs.
struct PeerWork {
    let url: URL
    let name: String
    let cues: PeerCues
    private var nextReport: UInt64 = 0
    private var report = PeerReport(phase: .opened)
    private var waits = LatencyHistogram()
    private var newestEntry: Int64 = 0
    private let options: SharedDatabase.Options
    private let snapshots = Counter()

    private static let reportInterval: UInt64 = 100_000_000
    private static let readInterval = 0.001
    /// The interval between two entries of the interactive widget, in seconds.
    private static let submitInterval = 0.02
    /// The shortest time between two snapshots. A real app uses a second or more, because users do not look more often.
    private static let publishInterval: Duration = .milliseconds(10)
    /// How long the widget waits for the database to be created, in nanoseconds.
    private static let patience: UInt64 = 20_000_000_000
    /// How long the widget waits for the entries of the other processes after these have done their work.
    private static let endPatience: Duration = .seconds(15)
    /// How long the interactive widget waits until its last entry is shown.
    private static let lastPatience: Duration = .seconds(8)

    private final class Counter: Sendable {
        private let value = Atomic(0)
        var count: Int { value.load(ordering: .relaxed) }
        func increment() { value.add(1, ordering: .relaxed) }
    }

    init(url: URL, name: String, cues: PeerCues) {
        self.url = url
        self.name = name
        self.cues = cues
        var options = SharedDatabase.Options()
        // The tool reports what goes wrong itself, on one line.
        options.eventLog = .off
        options.waitWhileStopped()
        if name == DemoCast.owner { options.outbox = .demo }
        self.options = options
    }

    private static var now: UInt64 { DispatchTime.now().uptimeNanoseconds }

    mutating func run(as role: DemoCast.Player.Role) {
        do {
            switch role {
            case .readWrite: try writeEntries()
            case .readOnly: try showEntries()
            case .outboxOnly: try submitEntries()
            }
        } catch {
            note(error)
        }
        tell(.done)
    }

    private mutating func writeEntries() throws {
        let start = Self.now
        let database = try SharedDatabase.open(at: url, schema: DemoDatabase.schema, as: name, options: options)
        hasOpened(since: start)
        let publisher = try name == DemoCast.owner ? publish(database) : nil
        guard let end = begin() else { return }
        while Self.now < end {
            write(to: database)
            reportIfDue()
        }
        tell(.rested)
        // The app stays open because it applies the commands of other processes.
        _ = cues.waitForEnd()
        publisher?.cancel()
        try database.close()
    }

    private func publish(_ database: SharedDatabase) throws -> SnapshotPublisher {
        try database.publish(
            to: .demo(url, as: name),
            atMostEvery: Self.publishInterval,
            onPublish: { [snapshots] _ in snapshots.increment() },
            { db in try WidgetState(db) }
        )
    }

    private mutating func showEntries() throws {
        let start = Self.now
        let database = try openForReading()
        hasOpened(since: start)
        guard let end = begin() else { return }
        let widget = DemoWidget()
        let observations = try widget.observe(database)
        while Self.now < end {
            read(from: database)
            reportIfDue()
        }
        tell(.rested)
        try widget.wait(for: cues.waitForEnd(), until: .now + Self.endPatience)
        report.seen = widget.seen
        for observation in observations { observation.cancel() }
        try database.close()
    }

    private mutating func submitEntries() throws {
        let start = Self.now
        let widget = try DemoInteractiveWidget(url, as: name)
        hasOpened(since: start)
        guard let end = begin() else { return }
        let following = widget.follow()
        defer {
            following.cancel()
            report.interactive = widget.report
        }
        while Self.now < end {
            let began = Self.now
            try widget.submit()
            waits.record(Self.now - began)
            report.count += 1
            report.interactive = widget.report
            reportIfDue()
            Thread.sleep(forTimeInterval: Self.submitInterval)
        }
        try widget.waitForLast(until: .now + Self.lastPatience)
        report.interactive = widget.report
        tell(.rested)
        _ = cues.waitForEnd()
    }

    private mutating func hasOpened(since start: UInt64) {
        report.opening = Self.now - start
        tell(.opened)
    }

    /// - returns: the time when the work ends; nil when the parent has ended.
    private func begin() -> UInt64? { cues.waitForGo().map { Self.now + UInt64($0 * 1e9) } }

    /// Opens the database for reading. A widget may start before the database exists.
    private func openForReading() throws -> SharedDatabase {
        let deadline = Self.now + Self.patience
        while Self.now < deadline {
            let answer = try SharedDatabase.openReadOnly(
                at: url,
                schema: DemoDatabase.schema,
                as: name,
                options: options
            )
            if case .available(let database) = answer { return database }
            Thread.sleep(forTimeInterval: Self.readInterval)
        }
        throw ToolError("the database was not created within \(Self.patience / 1_000_000_000) seconds")
    }

    private mutating func write(to database: SharedDatabase) {
        let asked = Self.now
        var granted = asked
        do {
            try database.write { db in
                granted = Self.now
                let sql = "INSERT INTO entry (author, number, at) VALUES (?, ?, datetime('now'))"
                try db.cachedStatement(sql: sql).execute(arguments: [name, report.count + 1])
            }
            report.count += 1
            waits.record(granted - asked)
        } catch let error as DatabaseError where error.isSuspension {
            // Ctrl-Z interrupted the write. The next write writes the same entry.
        } catch {
            waits.record(Self.now - asked)
            note(error)
        }
    }

    private mutating func read(from database: SharedDatabase) {
        let asked = Self.now
        var granted = asked
        do {
            let newest = try database.read { db in
                granted = Self.now
                return try Int64.fetchOne(db.cachedStatement(sql: DemoDatabase.lastEntry)) ?? 0
            }
            if newest < newestEntry {
                throw ToolError("read entry \(newest) after entry \(newestEntry): a commit was lost")
            }
            newestEntry = newest
            report.count += 1
            waits.record(granted - asked)
        } catch {
            waits.record(Self.now - asked)
            note(error)
        }
        Thread.sleep(forTimeInterval: Self.readInterval)
    }

    private mutating func note(_ error: any Error) {
        report.errors += 1
        if report.firstError == nil { report.firstError = ToolError.line(for: error) }
    }

    private mutating func reportIfDue() {
        guard Self.now >= nextReport else { return }
        nextReport = Self.now + Self.reportInterval
        tell(.running)
    }

    private mutating func tell(_ phase: PeerReport.Phase) {
        report.phase = phase
        report.p50 = waits.percentile(0.5)
        report.p99 = waits.percentile(0.99)
        report.longestWait = waits.longest
        if name == DemoCast.owner { report.snapshots = snapshots.count }
        Terminal.write(report.line)
    }
}
