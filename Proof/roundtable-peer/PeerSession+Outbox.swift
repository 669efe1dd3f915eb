import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport

extension PeerSession {
    func submit(_ load: SubmitLoad) throws {
        var options = CommandOutbox.Options()
        options.durability = load.isDurable ? .machine : .process
        let url = URL(fileURLWithPath: load.path)
        let outbox = try CommandOutbox(forDatabaseAt: url, as: "sender-\(load.sender)", options: options)
        let progress = try ProgressFile(countingAt: load.progress)
        for number in load.from...load.through {
            if channel.hasInput { return }
            let command = PeerCommandEntry(sender: load.sender, n: number)
            var isFull = true
            while isFull {
                do {
                    try outbox.submit(command, id: command.id)
                    isFull = false
                } catch OutboxError.full {
                    if channel.hasInput { return }
                    pause(milliseconds: .random(in: 100...300))
                }
            }
            progress.record(number)
            pause(milliseconds: load.pauseMilliseconds * .random(in: 0...1))
        }
    }

    func publish(_ database: SharedDatabase, to path: String) throws -> SnapshotPublisher {
        var options = SnapshotFileOptions()
        options.durability = .process
        let url = URL(fileURLWithPath: path)
        let file = SnapshotFile<PeerSnapshotValue>(at: url, as: "owner", options: options)
        return try database.publish(to: file, atMostEvery: .milliseconds(1)) { db in
            let count = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM applied") ?? 0
            return PeerSnapshotValue(number: count, size: 100 + count % 5000)
        }
    }

    /// Opens the database as the owner of its outbox.
    func own(path: String) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.eventLog = .off
        options.outbox = PeerOutbox.handlers
        let url = URL(fileURLWithPath: path)
        return try SharedDatabase.open(at: url, schema: PeerOutbox.schema, as: "owner", options: options)
    }
}
