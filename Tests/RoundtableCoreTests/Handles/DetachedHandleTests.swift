import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Raw handles of connections that are closed, and of files that are lost.
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

    /// The closure of a turn does not run once a file is lost, because SQLite's commits within it could not be refused (rule W12b).
    @Test(arguments: LostFileTests.Damage.allCases) func turnsDoNotBegin(damage: LostFileTests.Damage) throws {
        let world = try LostFileTests.World()
        let db = try world.open()
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        try handle.turn { try raw.insert("before") }
        try damage.make(world.url.path)
        // The look before the loss counts for a while.
        MonotonicClock.sleep(2 * DatabaseFiles.validity)
        let error = #expect(throws: SharedDatabaseError.self) { try handle.turn { Issue.record("it began") } }
        guard case .fileLost(_, let file)? = error else {
            Issue.record("\(error as Any)")
            return
        }
        #expect(file.file == damage.file && file.finding == damage.finding)
        try handle.detach()
        try db.close()
    }
}
