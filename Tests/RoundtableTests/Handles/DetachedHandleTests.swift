import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import Testing

@testable import Roundtable
@testable import RoundtableCore

@Suite struct DetachedHandleTests {
    /// A handle that goes after it was detached ends nothing of another connection, which may have the address of the one that it was attached
    /// to: a write into a lost file still fails.
    @Test func itGoesWhenItsConnectionIsClosed() throws {
        var hasReused = false
        for _ in 0..<20 where !hasReused {
            let world = try LostFileTests.World()
            let db = try world.open { options in
                options.process = .early()
                options.suspensionPolicy = .everything
            }
            var raw: RawSQLite? = try RawSQLite(db.path)
            let number = try UInt(bitPattern: #require(raw).pointer)
            var handle: SharedDatabase.Handle? = try SharedDatabase.Handle(
                attachedTo: #require(raw).pointer,
                of: db
            )
            try #require(handle).detach()
            #expect(db.suspend(deadline: .now + .seconds(30)).outcome == .released)
            raw = nil
            #expect(raw == nil)
            db.resume()
            try db.insert("between")
            hasReused = db.writer.queue.inDatabase { OwnConnection.number($0) } == number
            handle = nil
            #expect(handle == nil)
            try LostFileTests.Damage.walRemoved.make(world.url.path)
            // The look before the loss counts for a while.
            MonotonicClock.sleep(2 * DatabaseFiles.validity)
            #expect(throws: SharedDatabaseError.self) { try db.insert("after") }
            try? db.close()
        }
        #expect(hasReused, "SQLite has used no address again")
    }
}
