import Foundation
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct Fork {
        /// A child of `fork` without `exec` gets a clear error for whatever it does, opening the database again included, and harms no process:
        /// the parent and the others continue, and the child's end drops no lock (rules W4, G4, G5). It may look at a database that was closed
        /// before, and it does not hang because another thread of its parent was registering a mapping.
        @Test(.timeLimit(.minutes(1)))
        func childGetsAnError() throws {
            try PeerFleet.run { fleet in
                let parent = try fleet.spawnOpen("parent")
                let others = try fleet.spawnOpen(2)
                try parent.call(.write(rows: 1))
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                for _ in 0..<5 {
                    let message = try #require(try parent.call(.useAfterFork).message)
                    let lines = message.split(separator: "\n")
                    #expect(lines.count == 11)
                    for line in lines.dropLast() {
                        #expect(line.contains("SQLite error 21"), "\(line)")
                        #expect(line.contains("was opened before fork()"), "\(line)")
                        #expect(line.contains("Call exec in the child"), "\(line)")
                    }
                    #expect(lines.last == "closed before: no error")
                    try parent.call(.write(rows: 1))
                }
                try parent.send(.writeLoop(WriteLoad(seconds: 1)))
                try parent.report().expectNoErrors(parent)
                for peer in others { try peer.stopLoop().expectNoErrors(peer) }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
            }
        }
    }
}
