import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport

/// Looks at what a power cut has left, as the programs that start afterwards do.
struct CrashStateChecker {
    /// What is there, whatever should be.
    struct Observation: Codable {
        var commits: UInt64 = 0
        var applied: [Int] = []
        /// The commands that wait in the outbox, as bits.
        var waiting: UInt64 = 0
        /// The number in the synced snapshot file; 0 without one.
        var snapshot: UInt64 = 0
        /// The number in the other snapshot file; 0 if it is not there or not whole.
        var unsyncedSnapshot: UInt64 = 0
        /// Which finding, whatever was acknowledged.
        var defect: Finding?
    }

    struct Finding: Codable {
        enum Kind: String, Codable, CaseIterable {
            case corrupt, lostCommit, lostCommand, repeatedCommand, lostSnapshot, damagedSnapshot, notUsable

            /// As reports show it.
            var words: String {
                switch self {
                case .corrupt: "corrupt database"
                case .lostCommit: "lost commit"
                case .lostCommand: "lost command"
                case .repeatedCommand: "repeated command"
                case .lostSnapshot: "lost snapshot file"
                case .damagedSnapshot: "damaged snapshot file"
                case .notUsable: "not usable"
                }
            }
        }
        var kind: Kind
        var text: String
    }

    let durability: CommitDurability
    /// An empty folder, which is emptied again.
    let folder: URL

    /// - parameter usingLibrary: whether the state is also opened by the library, which drains the outbox and writes.
    func observe(_ state: CrashState, usingLibrary: Bool) throws -> Observation {
        defer { empty() }
        try state.write(into: folder.path)
        let commands = state.files.filter { $0.key.hasPrefix(Self.commandsFolder + "/") }.map(\.value)
        let waiting = Self.waiting(commands)
        // The library goes first: it finds the companions that the power cut has left.
        if usingLibrary {
            if let finding = useLibrary(waiting).finding {
                var observation = Observation()
                observation.waiting = waiting
                observation.defect = finding
                return observation
            }
            // What the library changes is checked here, and what it found is looked at again in the state as it was.
            empty()
            try state.write(into: folder.path)
        }
        return observe(waiting: waiting)
    }

    /// Looks at the folder as it lies there, by SQLite alone.
    func observe(waiting: UInt64) -> Observation {
        var observation = Observation()
        observation.waiting = waiting
        do {
            let content = try plainContent()
            observation.commits = content.commits
            observation.applied = content.applied
            if let damage = content.damage { observation.defect = Finding(kind: .corrupt, text: damage) }
        } catch {
            observation.defect = Finding(kind: .corrupt, text: "SQLite: \(error)")
        }
        if Set(observation.applied).count != observation.applied.count {
            observation.defect = Finding(kind: .repeatedCommand, text: "applied \(observation.applied)")
        }
        readSnapshots(&observation)
        return observation
    }

    /// Compares with what was acknowledged.
    func judge(_ observation: Observation, _ bounds: AcknowledgedBounds) -> Finding? {
        if let defect = observation.defect { return defect }
        let required = durability == .machine ? bounds.commit : bounds.syncedCommit
        if observation.commits < required {
            let text = "the commits up to \(required) must be there, and the last is \(observation.commits)"
            return Finding(kind: .lostCommit, text: text)
        }
        let applied = observation.applied.reduce(into: UInt64(0)) { $0 |= 1 << UInt64($1) }
        let lost = bounds.commands & ~(applied | observation.waiting)
        if lost != 0 {
            let numbers = (0..<64).filter { lost >> UInt64($0) & 1 == 1 }
            return Finding(kind: .lostCommand, text: "commands \(numbers) are neither applied nor in the outbox")
        }
        if observation.snapshot < bounds.snapshot {
            let text = "value \(bounds.snapshot) was acknowledged, and the file has \(observation.snapshot)"
            return Finding(kind: .lostSnapshot, text: text)
        }
        return nil
    }

    /// The content of the database as it lies there.
    func plainContent() throws -> Ledger.Content {
        let path = PowerCutPlaces.database(folder).path
        guard FileManager.default.fileExists(atPath: path) else { return Ledger.Content() }
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { try Ledger.content($0) }
    }

    /// Where commands wait, below the folder.
    static let commandsFolder = PowerCutPlaces.databaseName + "-outbox/commands"

    /// The commands that are whole, as bits.
    ///
    /// - parameter files: the content of the files in the outbox's folder of commands.
    static func waiting(_ files: some Sequence<[UInt8]>) -> UInt64 {
        files.reduce(into: UInt64(0)) { bits, file in
            guard case .command(let command) = CommandFile.content(of: file),
                let decoded = try? LedgerCommand.decoded(from: command.payload)
            else { return }
            bits |= 1 << UInt64(decoded.n)
        }
    }

    private func readSnapshots(_ observation: inout Observation) {
        for isSynced in [true, false] {
            do {
                switch try PowerCutPlaces.snapshot(folder, isSynced: isSynced).read() {
                case .value(let value, _):
                    if value != LedgerValue(value.number) {
                        let text = "a value that was never written: \(value)"
                        observation.defect = Finding(kind: .damagedSnapshot, text: text)
                    }
                    if isSynced {
                        observation.snapshot = value.number
                    } else {
                        observation.unsyncedSnapshot = value.number
                    }
                case .absent: break
                case let reading:
                    if isSynced { observation.defect = Finding(kind: .damagedSnapshot, text: "\(reading)") }
                }
            } catch {
                observation.defect = Finding(kind: .damagedSnapshot, text: "\(error)")
            }
        }
    }

    /// Opens the database with the library, applies what waits, and writes.
    ///
    /// - Parameters:
    ///   - waiting: the commands that wait, as bits.
    ///   - value: the number that both snapshot files get.
    /// - returns: the number of commits; a finding if something fails, or a command was applied twice, not at all, or out of order.
    func useLibrary(
        _ waiting: UInt64,
        writing value: UInt64 = 1_000_000,
        recordsHistory: Bool = false
    ) -> (commits: UInt64, finding: Finding?) {
        do {
            var options = SharedDatabase.Options()
            options.eventLog = .off
            options.durability = durability
            options.outbox = Ledger.handlers
            options.drainOnOpen = true
            let database: SharedDatabase = try SharedDatabase.open(
                at: PowerCutPlaces.database(folder),
                schema: Ledger.schema(recordsHistory: recordsHistory),
                as: "after the power cut",
                options: options
            )
            defer { try? database.close() }
            try database.deliver()
            var random = SeededGenerator(seed: 1)
            _ = try database.write { try Ledger.commit($0, process: 0, number: 0, &random) }
            let content = try database.read { try Ledger.content($0) }
            if let damage = content.damage {
                return (0, Finding(kind: .corrupt, text: "after a write by the library: \(damage)"))
            }
            let applied = content.applied.reduce(into: UInt64(0)) { $0 |= 1 << UInt64($1) }
            if Set(content.applied).count != content.applied.count {
                return (0, Finding(kind: .repeatedCommand, text: "applied \(content.applied) after draining"))
            }
            if waiting & ~applied != 0 {
                return (0, Finding(kind: .lostCommand, text: "a waiting command was not applied: \(content.applied)"))
            }
            if content.applied != content.applied.sorted() {
                return (0, Finding(kind: .repeatedCommand, text: "applied out of order: \(content.applied)"))
            }
            for isSynced in [true, false] {
                let value = LedgerValue(value)
                let file = PowerCutPlaces.snapshot(folder, isSynced: isSynced)
                let _: SnapshotInfo = try file.write(value)
                guard try file.read().value == value else {
                    return (0, Finding(kind: .damagedSnapshot, text: "a snapshot file cannot be replaced"))
                }
            }
            return (content.commits, nil)
        } catch {
            return (0, Finding(kind: .notUsable, text: "the library: \(error)"))
        }
    }

    private func empty() {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        for name in names { try? FileManager.default.removeItem(at: folder.appendingPathComponent(name)) }
    }
}
