import ArgumentParser
import Dispatch
import Foundation
import GRDB
import Roundtable

/// What a process of the demo tells the one that started it: a line of JSON each.
struct PeerReport: Codable, Equatable, Sendable {
    enum Phase: String, Codable, Sendable { case ready, opened, running, done }

    var phase: Phase
    /// Commits of a writer, reads of a reader.
    var count = 0
    var p50: UInt64 = 0
    var p99: UInt64 = 0
    var longestWait: UInt64 = 0
    /// How long opening took, the creation of the database or the wait for it included; nanoseconds, as all times here.
    var opening: UInt64 = 0
    var errors = 0
    var firstError: String?
    /// Of a reader.
    var seen: DemoWidget.Seen?

    var line: String {
        // A flat structure of numbers and strings always encodes.
        (try? JSONEncoder().encode(self)).map { String(decoding: $0, as: UTF8.self) + "\n" } ?? ""
    }
}

/// One process of the demo. On `open` on its standard input it opens the database, on `go SECONDS` it works, on `end ENTRY` it
/// knows the last entry that there is; it reports on its standard output. It ends when its input does: when whoever started it
/// is gone.
struct DemoPeerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "demo-peer", shouldDisplay: false)

    @Option var path: String
    @Option var name: String
    @Option var role: String

    func run() throws {
        guard let role = DemoCast.Player.Role(rawValue: role) else { throw ValidationError("Unknown role.") }
        Terminal.write(PeerReport(phase: .ready).line)
        guard readLine() == "open" else { return }
        var work = PeerWork(url: URL(fileURLWithPath: path), name: name)
        work.run(as: role) { [widget = work.widget] in
            guard let words = readLine()?.split(separator: " "), words.count == 2, words[0] == "go" else { return nil }
            Thread.detachNewThread {
                while let words = readLine()?.split(separator: " ") {
                    if words.count == 2, words[0] == "end", let entry = Int64(words[1]) { widget.end(at: entry) }
                }
                Foundation.exit(1)
            }
            return Double(words[1])
        }
    }
}

/// What a process of the demo does: writes without pause; or looks in again and again, and is a widget that shows the last entry.
struct PeerWork {
    let url: URL
    let name: String
    let widget = DemoWidget()
    private var nextReport: UInt64 = 0
    private var report = PeerReport(phase: .opened)
    private var waits = LatencyHistogram()
    private var newestEntry: Int64 = 0
    private let options: SharedDatabase.Options

    private static let reportInterval: UInt64 = 100_000_000
    private static let readInterval = 0.001
    /// How long the widget waits for the database to be created.
    private static let patience: UInt64 = 20_000_000_000
    /// How long it waits for the writers to end, and for what they wrote.
    private static let endPatience: Duration = .seconds(15)

    init(url: URL, name: String) {
        self.url = url
        self.name = name
        var options = SharedDatabase.Options()
        options.waitWhileStopped()
        self.options = options
    }

    private static var now: UInt64 { DispatchTime.now().uptimeNanoseconds }

    /// - parameter seconds: waits for the start signal, and returns for how long to work.
    mutating func run(as role: DemoCast.Player.Role, for seconds: () -> Double?) {
        do {
            let start = Self.now
            let database = try role == .readWrite ? openForWriting() : openForReading()
            report.opening = Self.now - start
            tell(.opened)
            guard let seconds = seconds() else { return }
            let observations = try role == .readOnly ? widget.observe(database) : []
            let end = Self.now + UInt64(seconds * 1e9)
            while Self.now < end {
                switch role {
                case .readWrite: write(to: database)
                case .readOnly: read(from: database)
                }
                tellIfDue()
            }
            if role == .readOnly {
                try widget.waitForEnd(until: .now + Self.endPatience)
                report.seen = widget.seen
            }
            for observation in observations { observation.cancel() }
            try database.close()
        } catch {
            note(error)
        }
        tell(.done)
    }

    private func openForWriting() throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: DemoDatabase.schema, as: name, options: options)
    }

    /// A widget may start before there is anything to show.
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
            // Ctrl-Z: it is written again.
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

    private mutating func tellIfDue() {
        guard Self.now >= nextReport else { return }
        nextReport = Self.now + Self.reportInterval
        tell(.running)
    }

    private mutating func tell(_ phase: PeerReport.Phase) {
        report.phase = phase
        report.p50 = waits.percentile(0.5)
        report.p99 = waits.percentile(0.99)
        report.longestWait = waits.longest
        Terminal.write(report.line)
    }
}
