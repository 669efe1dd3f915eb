import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// A meter receives each read and write once, with its failure.
@Suite struct MeteringTests {
    private final class Meter: AccessMeter {
        let lines = Mutex<[String]>([])

        func didRead(_ duration: Nanoseconds, _ failure: (any Error)?) { note("read", failure) }

        func didWrite(_ duration: WriteDuration, _ failure: (any Error)?) {
            note(duration.hasCommitted ? "commit" : "write", failure)
            #expect(duration.total >= duration.waited ?? 0)
        }

        private func note(_ access: String, _ failure: (any Error)?) {
            lines.withLock { $0.append(failure == nil ? access : "\(access) failed") }
        }
    }

    private struct Failure: Error {}

    private static let insert = "INSERT INTO player (name) VALUES ('A')"

    @Test func accesses() async throws {
        let folder = try TemporaryFolder()
        let url = folder.file("db.sqlite")
        let db = try await SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "test")
        let meter = Meter()
        db.metering.set(meter)
        try blocking(db)
        try await db.read { _ in }
        await #expect(throws: Failure.self) { try await db.read { _ in throw Failure() } }
        try await db.write { try $0.execute(sql: Self.insert) }
        try await db.write(sharesCommit: false) { try $0.execute(sql: Self.insert) }
        db.metering.set(nil)
        try await db.read { _ in }
        let blocking = ["read", "read failed", "commit", "write failed"]
        #expect(meter.lines.withLock { $0 } == blocking + ["read", "read failed", "commit", "commit"])
    }

    private func blocking(_ db: SharedDatabase) throws {
        try db.read { _ in }
        #expect(throws: Failure.self) { try db.read { _ in throw Failure() } }
        try db.write { try $0.execute(sql: Self.insert) }
        #expect(throws: Failure.self) { try db.write { _ in throw Failure() } }
    }

    /// An access belongs to the meter that was set when it began.
    @Test func aMeterThatGoesDuringAnAccess() throws {
        let folder = try TemporaryFolder()
        let db = try SharedDatabase.open(at: folder.file("db.sqlite"), schema: SharedSchema(migrator()), as: "test")
        let (first, second) = (Meter(), Meter())
        db.metering.set(first)
        try db.read { _ in db.metering.set(second) }
        try db.write { try $0.execute(sql: Self.insert) }
        // An empty transaction is one that commits, too.
        try db.write { _ in db.metering.set(nil) }
        #expect(first.lines.withLock { $0 } == ["read"])
        #expect(second.lines.withLock { $0 } == ["commit", "commit"])
    }
}
