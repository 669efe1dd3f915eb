import Foundation
import GRDB
import Roundtable
import RoundtableDelivery
import RoundtableFiles
import RoundtableKernel
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// A store in memory that fails as configured.
final class FakeStore: OutboxStore {
    struct Failure: Error {}

    /// How often each fault happens, from 0 to 1.
    struct Faults {
        var refusal = 0.0
        /// Objects of a listing are not shown.
        var hidden = 0.0
        /// An upload or download is cut off, or its content is changed.
        var damage = 0.0
        /// An object that was uploaded, or is to be deleted, is not.
        var omission = 0.0
        /// Before a listing, an object that was there once is there again.
        var comeback = 0.0
        static let none = Faults()
    }

    var objects: [String: [UInt8]] = [:]
    /// All that has ever been there.
    private var attic: [String: [UInt8]] = [:]
    var faults = Faults.none
    var random = SeededGenerator(seed: 1)
    /// The operations, for tests that count them.
    private(set) var log: [String] = []

    private func happens(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &random) < probability
    }

    private func refuse() throws { if happens(faults.refusal) { throw Failure() } }

    private func damaged(_ bytes: [UInt8]) -> [UInt8] {
        guard happens(faults.damage), !bytes.isEmpty else { return bytes }
        guard Bool.random(using: &random) else {
            return Array(bytes.prefix(Int.random(in: 0..<bytes.count, using: &random)))
        }
        var bytes = bytes
        bytes[bytes.indices.randomElement(using: &random)!] ^= 0x20
        return bytes
    }

    private static func matches(_ path: String, _ pattern: String) -> Bool {
        if pattern.hasSuffix("/**") { return path.hasPrefix(pattern.dropFirst().dropLast(2)) }
        let (parts, wanted) = (path.split(separator: "/"), pattern.split(separator: "/"))
        return parts.count == wanted.count
            && zip(parts, wanted).allSatisfy { part, wanted in
                wanted.hasPrefix("*") ? part.hasSuffix(wanted.dropFirst()) : part == wanted
            }
    }

    func list(_ patterns: [String]) throws -> [StoreObject] {
        try refuse()
        if happens(faults.comeback), let old = attic.keys.sorted().randomElement(using: &random) {
            objects[old] = attic[old]
        }
        return objects.keys.sorted().filter { path in patterns.contains { Self.matches(path, $0) } }
            .filter { _ in !happens(faults.hidden) }
            .map { StoreObject(path: $0, size: objects[$0]!.count) }
    }

    private func put(_ bytes: [UInt8], _ path: String) throws {
        log.append("put \(path)")
        attic[path] = bytes
        if !happens(faults.omission) { objects[path] = damaged(bytes) }
        try refuse()
    }

    func upload(_ names: [String], from folder: OpenFolder, to prefix: String) throws {
        for name in names {
            guard let data = FileManager.default.contents(atPath: folder.file(name)) else { continue }
            try put(Array(data), "\(prefix)/\(name)")
        }
    }

    func upload(_ bytes: [UInt8], as object: String) throws { try put(bytes, object) }

    func download(_ paths: [String], into folder: StagingFolder) throws {
        for path in paths {
            try refuse()
            guard let bytes = objects[path] else { continue }
            let file = URL(fileURLWithPath: "\(folder.path)/\(path)")
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try Data(damaged(bytes)).write(to: file)
        }
    }

    func delete(_ paths: [String]) throws {
        for path in paths {
            try refuse()
            log.append("delete \(path)")
            if !happens(faults.omission) { objects[path] = nil }
        }
    }
}

/// Machines with senders, a machine with the database, and a store between them, all in this process, one step after the other.
final class OutboxTravelWorld {
    struct Entry: OutboxCommand {
        static let name = "entry"
        static let version = 1
        var sender: String
        var n: Int
    }

    /// A machine whose programs submit.
    final class Machine {
        let folder: OutboxFolder
        let url: URL
        var shipper: OutboxShipper
        /// The last number of each sender.
        var numbers: [String: Int] = [:]
        var outboxes: [String: CommandOutbox] = [:]
        var lives = 0

        init(_ url: URL, _ shipper: OutboxShipper) throws {
            self.url = url
            folder = try OutboxFolder(at: url)
            self.shipper = shipper
        }
    }

    let folder: Folder
    let store = FakeStore()
    let database: SharedDatabase
    let inbox: OutboxFolder
    var machines: [Machine] = []
    var collector: OutboxCollector
    private var drain: OutboxDrain
    private let handlers: OutboxHandlers
    private let clock = Clock()

    /// The time of the owner, which decides what is forgotten, and that of shippers and collector.
    final class Clock: @unchecked Sendable {
        // @unchecked: a world is used by one thread.
        var date = Date()
        var time: Nanoseconds = 1
    }

    init(machines count: Int = 1) throws {
        folder = try Folder()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            // It accepts the same command twice, so that a test detects such an error.
            try db.execute(sql: "CREATE TABLE entry (id INTEGER PRIMARY KEY, sender TEXT NOT NULL, n INTEGER NOT NULL)")
        }
        let url = URL(fileURLWithPath: folder.path("app.db"))
        database = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "app")
        inbox = try OutboxFolder(forDatabaseAt: url)
        var handlers = OutboxHandlers()
        handlers.handle(Entry.self) { db, command in
            try db.execute(sql: "INSERT INTO entry (sender, n) VALUES (?, ?)", arguments: [command.sender, command.n])
        }
        handlers.environment.now = { [clock] in clock.date }
        self.handlers = handlers
        drain = OutboxDrain(unattended: database, handlers: handlers)
        collector = Self.collector(inbox, store, clock)
        for number in 0..<count { try addMachine(folder.path("machine-\(number)")) }
    }

    private static func collector(_ inbox: OutboxFolder, _ store: FakeStore, _ clock: Clock) -> OutboxCollector {
        OutboxCollector(inbox, from: store, waitForOutcomes: 0, now: { clock.time })
    }

    private static func shipper(_ url: URL, _ store: FakeStore, _ clock: Clock) throws -> OutboxShipper {
        OutboxShipper(try OutboxFolder(at: url), to: store, now: { clock.time })
    }

    @discardableResult
    func addMachine(_ path: String) throws -> Machine {
        let url = URL(fileURLWithPath: path)
        let machine = try Machine(url, Self.shipper(url, store, clock))
        machines.append(machine)
        return machine
    }

    // MARK: Steps

    /// The process of the collector dies, and another starts.
    func restartCollector() { collector = Self.collector(inbox, store, clock) }

    /// The process of the shipper dies, and another starts.
    func restart(_ machine: Machine) throws { machine.shipper = try Self.shipper(machine.url, store, clock) }

    /// A sender's process submits the next number.
    ///
    /// - parameter isNewProcess: whether it is another process than the last one of that name: a new stream begins.
    @discardableResult
    func submit(_ machine: Machine, _ sender: String, isNewProcess: Bool = false) throws -> UUID {
        if isNewProcess || machine.outboxes[sender] == nil {
            machine.outboxes[sender] = nil
            var options = CommandOutbox.Options()
            options.durability = .process
            machine.outboxes[sender] = try CommandOutbox(at: machine.url, as: sender, options: options)
        }
        let n = machine.numbers[sender, default: 0] + 1
        let entry = Entry(sender: "\(machine.url.lastPathComponent)/\(sender)", n: n)
        let submission: OutboxSubmission = try machine.outboxes[sender]!.submit(entry)
        machine.numbers[sender] = n
        return submission.id
    }

    func apply() throws { _ = try drain.drain() }

    /// Sixty days pass. The owner forgets what it may.
    func passSixtyDays() throws {
        for _ in 1...3 {
            pass(20 * 24 * 3600)
            // An owner forgets when it starts, and then once a day of its own clock.
            drain = OutboxDrain(unattended: database, handlers: handlers)
            try apply()
        }
    }

    /// The number of ids that the owner remembers.
    func remembered() throws -> Int {
        try database.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM roundtable_outbox_applied") ?? 0 }
    }

    func pass(_ seconds: Double) {
        clock.date += seconds
        clock.time += Nanoseconds(seconds * 1e9)
    }

    /// Both sides and the owner work until nothing waits, or for so many rounds. These take longer than what is shown and has no effect is
    /// left alone (rule Z12).
    ///
    /// - returns: whether nothing waits.
    func settle(rounds: Int = 120) throws -> Bool {
        for _ in 0..<rounds {
            for machine in machines { _ = try machine.shipper.round() }
            _ = try collector.round()
            try apply()
            pass(11)
            if try waiting() == 0, !(try inbox.isHandedOver()) { return true }
        }
        return false
    }

    // MARK: Results

    func waiting() throws -> Int {
        try machines.reduce(0) { try $0 + ($1.folder.names(in: .commands) ?? []).count }
    }

    func applied() throws -> [String: [Int]] {
        try database.read { db in
            try Row.fetchAll(db, sql: "SELECT sender, n FROM entry ORDER BY id").reduce(into: [:]) { applied, row in
                applied[row[0], default: []].append(row[1])
            }
        }
    }

    /// What was applied of each sender must be a beginning of what it has submitted, each once.
    func problem() throws -> String? {
        let applied = try applied()
        for (sender, numbers) in applied where numbers != Array(1...max(1, numbers.count)) {
            return "\(sender): \(numbers)"
        }
        return nil
    }

    /// The senders of which not everything was applied.
    func missing() throws -> [String] {
        let applied = try applied()
        return machines.flatMap { machine in
            machine.numbers.compactMap { sender, last in
                let name = "\(machine.url.lastPathComponent)/\(sender)"
                let count = applied[name]?.count ?? 0
                return count == last ? nil : "\(name): \(count) of \(last)"
            }
        }
    }
}
