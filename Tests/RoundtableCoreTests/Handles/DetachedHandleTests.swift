import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

@Suite struct DetachedHandleTests {
    /// A handle that is released after it was detached ends nothing of a connection that has got the address of its own: a write into a lost file
    /// still fails.
    @Test func itIsReleasedWhenItsConnectionIsClosed() throws {
        let world = try LostFileTests.World()
        let db = try world.open { options in
            options.process = .early()
            options.suspensionPolicy = .everything
        }
        var raw: RawSQLite? = try RawSQLite(db.path)
        let number = try UInt(bitPattern: #require(raw).pointer)
        var handle: SharedDatabase.RawHandle? = try SharedDatabase.RawHandle(attachedTo: #require(raw).pointer, of: db)
        try #require(handle).detach()
        raw = nil
        #expect(raw == nil)
        // Only the writer connection is open after this.
        #expect(db.suspend(deadline: .now + .seconds(30)).outcome == .released)
        db.resume()
        try db.insert("before")
        // From now on, the writer connection has the number of the one that was closed, as if it had been opened now and had got its address.
        // SQLite gives it to the next one often, but not always.
        let writer = try #require(db.writer.queue.inDatabase { OwnConnection.number($0) })
        db.files.closes(writer)
        db.files.opened(number, DatabaseFiles.Part.allCases)
        handle = nil
        #expect(handle == nil)
        try LostFileTests.Damage.walRemoved.make(world.url.path)
        // The look before the loss counts for a while.
        MonotonicClock.sleep(2 * DatabaseFiles.validity)
        #expect(throws: SharedDatabaseError.self) { try db.insert("after") }
        try? db.close()
    }
}
