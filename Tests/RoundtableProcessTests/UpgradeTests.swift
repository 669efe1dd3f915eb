import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// Programs of two versions have a database open, and the newer one migrates it under load (rules S8–S11, S13, S14).
    @Suite struct Upgrades {
        private static let upgrades = isLongRun ? 20 : 4
        private static let processes = 3

        /// Three processes write all the time. Three of the next version open the database, migrate it and write, too. What the older ones do then is
        /// their policy; the newer ones are the older ones of the next upgrade.
        @Test(.timeLimit(.minutes(10)), arguments: SharedDatabase.NewerSchemaPolicy.allCases)
        func rolling(_ policy: SharedDatabase.NewerSchemaPolicy) throws {
            try PeerFleet.run { fleet in
                var tally = Tally()
                var all: [Peer] = []
                func begin(version: Int) throws -> [Peer] {
                    let peers = try fleet.spawn(Self.processes)
                    all += peers
                    var options = PeerOptions()
                    options.newerSchemaPolicy = policy
                    for peer in peers {
                        let schema = PeerSchema(migrations: version, migrationMilliseconds: 2)
                        try peer.send(.open(fleet.opening(peer, schema: schema, options: options)))
                    }
                    for peer in peers {
                        let reply = try peer.reply(within: .seconds(60))
                        try #require(reply.outcome == .done, "\(peer), version \(version): \(reply.message ?? "")")
                        try peer.send(.writeLoop(WriteLoad(seconds: 300, think: 0.5)))
                    }
                    return peers
                }
                var old = try begin(version: 1)
                for version in 2...(Self.upgrades + 1) {
                    try fleet.waitForProgress(of: old)
                    let new = try begin(version: version)
                    try fleet.waitForProgress(of: new)
                    for peer in old { try judge(peer, policy, version: version, &tally) }
                    try expectBoundary(fleet.database, policy, version: version, old: old, &tally)
                    for peer in old { try peer.process.killAndReap() }
                    old = new
                }
                for peer in old { try peer.stopLoop().expectNoErrors(peer) }
                let ledger = try Ledger(of: fleet.database)
                ledger.expectEverything(acknowledgedBy: all)
                #expect(ledger.migrations == (1...(Self.upgrades + 1)).map { "v\($0)" })
                print("\(policy): \(Self.upgrades) upgrades, \(tally)")
            }
        }

        private struct Tally: CustomStringConvertible {
            /// Transactions of older processes before, and after, the migration that they do not know.
            var before = 0
            var after = 0
            var refused = 0
            var description: String {
                "\(before) transactions of older processes before the migration, \(after) after it, \(refused) refused"
            }
        }

        private static let refusal = "newer than this program"

        /// What an older process has done since the migration, and does now.
        private func judge(
            _ peer: Peer,
            _ policy: SharedDatabase.NewerSchemaPolicy,
            version: Int,
            _ tally: inout Tally
        ) throws {
            let report = try peer.stopLoop()
            tally.refused += report.errorCount
            let write = try peer.attempt(.write(rows: 1))
            switch policy {
            case .continue:
                #expect(report.errorCount == 0, "\(peer): \(report.errors)")
                #expect(write.outcome == .done, "\(peer): \(write.message ?? "")")
            case .refuseWrites:
                #expect(report.errors.allSatisfy { $0.contains(Self.refusal) }, "\(peer): \(report.errors)")
                #expect(write.message?.contains("'v\(version)'") == true, "\(peer): \(write.message ?? "written")")
                #expect(try peer.call(.count).number ?? 0 > 0)
            case .close:
                let isExpected = report.errors.allSatisfy { $0.contains(Self.refusal) || $0.contains("close") }
                #expect(isExpected, "\(peer): \(report.errors)")
                #expect(write.outcome == .failed, "\(peer) has written")
                // SQLITE_MISUSE.
                try eventually("\(peer) closes the database") { try peer.attempt(.count).code == 21 }
            }
            let expected = "\(SchemaEvent.becameNewer(unknownMigrations: ["v\(version)"]))"
            try eventually("\(peer) is notified") { try peer.call(.schemaEvents).message?.isEmpty == false }
            #expect(try peer.call(.schemaEvents).message == expected, "\(peer)")
        }

        /// Each migration notes the last row before it. Rows have ascending numbers.
        private func expectBoundary(
            _ url: URL,
            _ policy: SharedDatabase.NewerSchemaPolicy,
            version: Int,
            old: [Peer],
            _ tally: inout Tally
        ) throws {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            let queue = try DatabaseQueue(path: url.path, configuration: configuration)
            defer { try? queue.close() }
            for peer in old {
                let counts = try queue.read { db in
                    try Row.fetchOne(
                        db,
                        sql: """
                            SELECT count(*) FILTER (WHERE id <= entries) AS before, count(*) FILTER (WHERE id > entries) AS after
                            FROM entry, migrationLog WHERE author = ? AND migration = ?
                            """,
                        arguments: [peer.name, "v\(version)"]
                    )
                }
                let (before, after): (Int, Int) = (counts?["before"] ?? 0, counts?["after"] ?? 0)
                tally.before += before
                tally.after += after
                #expect(before > 0, "\(peer), version \(version)")
                if policy == .continue {
                    #expect(after > 0, "\(peer), version \(version)")
                } else {
                    #expect(
                        after == 0,
                        "\(peer) has written \(after) transactions after the migration to version \(version)"
                    )
                }
            }
        }
    }
}
