import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// A look from outside runs beside a participant that opens its connections again.
extension ParkingTests {
    enum Opener: CaseIterable, Sendable { case reader, snapshot }

    /// Connections of one process share one mapping of the wal-index. A look has it read-only, so what was opened meanwhile would have it
    /// read-only too, and each connection that is opened beside that one: writes would fail until all are closed.
    @Test(.serialized, arguments: Opener.allCases) func nothingOpensDuringALook(_ opener: Opener) async throws {
        let db = try open()
        try add("A", to: db)
        #expect(await park(db) == [])
        db.unpark()
        let hasOpened = Shared(false)
        let (url, reading) = (url, Shared<Running<SharedDatabaseSnapshot?>?>(nil))
        try await onThread {
            Result {
                try #require(
                    try WalIndexGate.look(within: .seconds(30)) {
                        let look = try Onlooker(url).connection(waitingUpTo: .seconds(5))
                        _ = try look.read(Player.fetchCount)
                        let task = inOwnThread {
                            let snapshot = opener == .snapshot ? try db.makeSnapshot() : nil
                            _ = try snapshot.map { try $0.read(Player.fetchCount) } ?? db.read(Player.fetchCount)
                            hasOpened.change { $0 = true }
                            return snapshot
                        }
                        reading.change { $0 = task }
                        waitUntil("it waits for the look, or has not waited", within: .seconds(30)) {
                            hasOpened.value || WalIndexGate.isAwaited
                        }
                        #expect(!hasOpened.value, "it waits for the look")
                        try look.close()
                    } as Void?
                )
            }
        }.get()
        // The snapshot keeps its connection.
        let snapshot = try await reading.value?.value
        try add("B", to: db)
        #expect(try names(db) == ["A", "B"])
        try snapshot?.close()
    }
}
