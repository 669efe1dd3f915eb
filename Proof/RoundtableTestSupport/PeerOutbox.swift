import Foundation
import GRDB
import Roundtable

/// The command that peers submit: number `n` of a sender. Its id is made of both, so that a sender that was killed can submit its
/// last command again.
package struct PeerCommandEntry: OutboxCommand {
    package static let name = "entry"
    package static let version = 1
    package var sender: Int
    package var n: Int

    package init(sender: Int, n: Int) {
        self.sender = sender
        self.n = n
    }

    package var id: UUID {
        var bytes = [UInt8](repeating: 0xAB, count: 16)
        withUnsafeBytes(of: UInt32(sender).bigEndian) { bytes.replaceSubrange(0..<4, with: $0) }
        withUnsafeBytes(of: UInt64(n).bigEndian) { bytes.replaceSubrange(8..<16, with: $0) }
        return UUID(uuid: bytes.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) })
    }
}

/// The table that the owner applies the commands to. It accepts the same command twice, so that a test detects such an error.
package enum PeerOutbox {
    package static let schema: SharedSchema = {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("applied") { db in
            try db.execute(
                sql: "CREATE TABLE applied (id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, n INTEGER NOT NULL)"
            )
        }
        return SharedSchema(migrator)
    }()

    package static var handlers: OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.handle(PeerCommandEntry.self) { db, command, info in
            // Some commands fail the first time, to test that retries keep the order. Those of sender 0 do not, because it is used
            // for measurements.
            if command.sender != 0, command.n % 97 == 0, info.attempt == 1 { throw FirstTry() }
            try db.cachedStatement(sql: "INSERT INTO applied (sender, n) VALUES (?, ?)")
                .execute(arguments: [command.sender, command.n])
        }
        handlers.retries.firstDelay = .milliseconds(1)
        return handlers
    }

    private struct FirstTry: Error {}
}

/// The work of a `submitLoop`. The peer submits the commands `from` to `through` of a sender, each after the one before is
/// acknowledged. The progress file has the number of acknowledged commands.
package struct SubmitLoad: Codable, Sendable {
    package var path: String
    package var sender: Int
    package var progress: String
    package var from: Int
    package var through: Int
    package var isDurable: Bool
    /// The longest pause between two submissions.
    package var pauseMilliseconds: Double = 0

    package init(path: String, sender: Int, progress: String, from: Int, through: Int, isDurable: Bool) {
        self.path = path
        self.sender = sender
        self.progress = progress
        self.from = from
        self.through = through
        self.isDurable = isDurable
    }
}
