import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Testing

/// Errors of a full or failing disk say where, and what to do next.
@Suite(.timeLimit(.minutes(1))) struct DiskErrorTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(_ schema: SharedSchema = SharedSchema(migrator())) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: schema, as: "app")
    }

    private func expect(
        _ code: ResultCode,
        _ text: String,
        _ error: (any Error)?,
        _ location: SourceLocation = #_sourceLocation
    ) {
        let error = error as? DatabaseError
        #expect(error?.extendedResultCode == code, sourceLocation: location)
        let message = error?.message ?? ""
        #expect(message.hasPrefix("\(url.path): ") && message.contains(text), "\(message)", sourceLocation: location)
        #expect(
            message.components(separatedBy: url.path).count == 2,
            "reported twice: \(message)",
            sourceLocation: location
        )
    }

    private static let fill = "PRAGMA max_page_count = 1; INSERT INTO player (name) VALUES (hex(zeroblob(100000)))"

    @Test func aWriteThatFindsTheDiskFull() async throws {
        let db = try open()
        let full = "database or disk is full: free space there"
        let first = #expect(throws: DatabaseError.self) { try db.write { try $0.execute(sql: Self.fill) } }
        expect(.SQLITE_FULL, full, first)
        let error = #expect(throws: DatabaseError.self) {
            try db.writeWithoutTransaction { try $0.execute(sql: Self.fill) }
        }
        expect(.SQLITE_FULL, full, error)
        #expect(error?.sql?.contains("INSERT INTO player") == true)
        let later = await #expect(throws: DatabaseError.self) { try await db.write { try $0.execute(sql: Self.fill) } }
        expect(.SQLITE_FULL, full, later)
    }

    @Test func aMigrationThatFindsTheDiskFull() throws {
        var migrator = migrator()
        migrator.registerMigration("large") { try $0.execute(sql: Self.fill) }
        let error = #expect(throws: DatabaseError.self) { _ = try open(SharedSchema(migrator)) }
        expect(.SQLITE_FULL, "free space there", error)
    }

    /// An error that the system reports of a failing disk cannot be produced here: the closures throw it, as a statement of theirs would.
    @Test func anAccessThatTheSystemFails() async throws {
        let db = try open()
        let failure = DatabaseError(resultCode: .SQLITE_IOERR_READ, message: "disk I/O error")
        let text = "disk I/O error (266): the system could not read or write it"
        func failing(_ body: () throws -> Void) -> (any Error)? { #expect(throws: DatabaseError.self) { try body() } }
        func expect(_ error: (any Error)?, _ location: SourceLocation = #_sourceLocation) {
            self.expect(.SQLITE_IOERR_READ, text, error, location)
        }
        expect(failing { try db.read { _ in throw failure } })
        expect(failing { try db.unsafeRead { _ in throw failure } })
        expect(failing { try db.write { _ in throw failure } })
        let read = await #expect(throws: DatabaseError.self) { try await db.read { _ in throw failure } }
        expect(read)
        let unsafeRead = await #expect(throws: DatabaseError.self) { try await db.unsafeRead { _ in throw failure } }
        expect(unsafeRead)
        // An error that has a text of its own is not changed.
        let other = DatabaseError(resultCode: .SQLITE_FULL, message: "another.sqlite: no room")
        let thrown = #expect(throws: DatabaseError.self) { try db.write { _ in throw other } }
        #expect(thrown?.message == other.message)
    }
}
