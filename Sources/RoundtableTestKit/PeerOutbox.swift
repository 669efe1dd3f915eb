import Foundation
import GRDB
import Roundtable

/// What peers submit: number `n` of a sender, whose id tells both, so that a sender that was killed can submit its last one again.
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

/// The table that the owner applies them to. It takes the same command twice, so that the check can find that it did.
package enum PeerOutbox {
    package static let schema: Schema = {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("applied") { db in
            try db.execute(
                sql: "CREATE TABLE applied (id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, n INTEGER NOT NULL)"
            )
        }
        return Schema(migrator)
    }()

    package static var handlers: OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.handle(PeerCommandEntry.self) { db, command, info in
            // Some fail at first, so that the order is kept through tries, too. Not those of sender 0, which is for measuring.
            if command.sender != 0, command.n % 97 == 0, info.attempt == 1 { throw FirstTry() }
            try db.cachedStatement(sql: "INSERT INTO applied (sender, n) VALUES (?, ?)")
                .execute(arguments: [command.sender, command.n])
        }
        handlers.retries.firstDelay = .milliseconds(1)
        return handlers
    }

    private struct FirstTry: Error {}
}

/// How a peer submits: commands `from` to `through` of a sender, each when the one before is acknowledged. The count of those that are is in
/// the progress file.
package struct SubmitLoad: Codable, Sendable {
    package var path: String
    package var sender: Int
    package var progress: String
    package var from: Int
    package var through: Int
    package var isDurable: Bool
    /// Between two submissions, at most.
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
