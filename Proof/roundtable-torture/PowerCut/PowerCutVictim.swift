import ArgumentParser
import Foundation
import GRDB
import Glibc
import Roundtable
import RoundtableTestSupport

/// A process that writes until it is done, or the file system is gone.
struct PowerCutVictim: ParsableCommand {
    enum Role: String, CaseIterable, ExpressibleByArgument {
        case writer, sender, owner, publisher, checkpointer
    }

    static let configuration = CommandConfiguration(
        commandName: "powercut-victim",
        abstract: "What `powercut` starts.",
        shouldDisplay: false
    )

    @Option var role: Role
    @Option var folder: String
    @Option var index: Int
    @Option var count: Int
    @Option var seed: UInt64
    @Option var durability: String
    /// A file on another file system, which gets what is acknowledged, 16 bytes each.
    @Option var journal: String?
    /// The number of the first command and value.
    @Option var first = 1
    @Option var checkpointThreshold = 16
    /// Whether the schema has a history.
    @Flag var recordsHistory = false

    func run() throws {
        if journal != nil { endWithCampaign() }
        let acknowledge = try Acknowledging(journal: journal)
        let url = URL(fileURLWithPath: folder)
        guard let durability = CommitDurability(rawValue: durability) else {
            throw ValidationError("no such durability")
        }
        var random = SeededGenerator(seed: seed)
        switch role {
        case .writer:
            let database = try open(url, durability, handlers: nil)
            for number in 1...count {
                let seq = try database.write { try Ledger.commit($0, process: index, number: number, &random) }
                acknowledge(.commit, seq)
            }
            try database.close()
        case .sender:
            let outbox = try CommandOutbox(forDatabaseAt: PowerCutPlaces.database(url), as: "sender")
            for n in first..<first + count {
                let command = LedgerCommand(n: n)
                let _: OutboxSubmission = try outbox.submit(command, id: command.id)
                acknowledge(.command, UInt64(n))
                // So that the owner decides them in several rounds.
                usleep(UInt32.random(in: 0...20_000, using: &random))
            }
        case .owner:
            let database = try open(url, durability, handlers: Ledger.handlers)
            // Until the campaign closes the standard input.
            while readLine() != nil {}
            try database.close()
        case .publisher:
            let files = [true, false].map { PowerCutPlaces.snapshot(url, isSynced: $0) }
            for number in first..<first + count {
                let _: SnapshotInfo = try files[0].write(LedgerValue(UInt64(number)))
                acknowledge(.snapshot, UInt64(number))
                let _: SnapshotInfo = try files[1].write(LedgerValue(UInt64(number)))
                acknowledge(.unsyncedSnapshot, UInt64(number))
                usleep(UInt32.random(in: 0...10_000, using: &random))
            }
        case .checkpointer:
            let database = try open(url, durability, handlers: nil)
            for _ in 0..<count {
                let last = try database.read { try UInt64(Int64.fetchOne($0, sql: "SELECT max(seq) FROM ledger") ?? 0) }
                let mode: Database.CheckpointMode = Int.random(in: 0..<4, using: &random) == 0 ? .truncate : .passive
                // Others may checkpoint or read at this moment, which is no error.
                if let result = try busyIsNil({ try database.checkpoint(mode) }), result.isComplete {
                    acknowledge(.checkpoint, last)
                }
                usleep(UInt32.random(in: 0...30_000, using: &random))
            }
        }
    }

    private func busyIsNil<Value>(_ body: () throws -> Value) throws -> Value? {
        do {
            return try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            return nil
        }
    }

    /// Ends the process when the campaign has ended, however it ended. The owner does that by itself.
    private func endWithCampaign() {
        guard role != .owner else { return }
        Thread.detachNewThread {
            while readLine() != nil {}
            _exit(1)
        }
    }

    private func open(_ url: URL, _ durability: CommitDurability, handlers: OutboxHandlers?) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.eventLog = .off
        options.durability = durability
        options.checkpointing = .automatic(threshold: checkpointThreshold)
        options.busyMode = .timeout(.seconds(30))
        options.outbox = handlers
        return try SharedDatabase.open(
            at: PowerCutPlaces.database(url),
            schema: Ledger.schema(recordsHistory: recordsHistory),
            as: "\(role) \(index)",
            options: options
        )
    }

    /// Tells the recorder, and the journal, what is acknowledged.
    private struct Acknowledging {
        private typealias Function = @convention(c) (UInt64, UInt64) -> Void
        private let function: Function?
        private let journal: Int32?

        init(journal path: String?) throws {
            let symbol = dlsym(UnsafeMutableRawPointer(bitPattern: 0), "powercut_acknowledge")
            function = symbol.map { unsafeBitCast($0, to: Function.self) }
            journal = path.map { Glibc.open($0, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644) }
            guard function != nil || journal ?? -1 >= 0 else {
                throw ValidationError("nothing records what is acknowledged")
            }
        }

        func callAsFunction(_ kind: Acknowledgement.Kind, _ number: UInt64) {
            function?(kind.rawValue, number)
            guard let journal else { return }
            let words = [kind.rawValue, number]
            _ = words.withUnsafeBytes { Glibc.write(journal, $0.baseAddress, $0.count) }
        }
    }
}
