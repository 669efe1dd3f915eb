import Foundation
import GRDB
import Roundtable
import Testing

/// What a configuration does while a connection is being opened.
@Suite(.timeLimit(.minutes(1))) struct OpeningTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(_ prepare: @escaping @Sendable (Database) throws -> Void) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.configuration.prepareDatabase(prepare)
        return try SharedDatabase.open(at: url, schema: Schema(migrator()), as: "app", options: options)
    }

    /// A configuration may take what it needs from another shared database.
    @Test func anotherDatabaseIsOpenedMeanwhile() throws {
        let other = folder.file("settings.sqlite")
        let db = try open { _ in
            let settings = try SharedDatabase.open(at: other, schema: Schema(migrator()), as: "app")
            try settings.insert("setting")
            try settings.close()
        }
        try db.insert("Arthur")
        #expect(try db.read { db in try Player.fetchCount(db) } == 1)
    }

    /// A look from outside would be in the way of the connection. It says what it could not see.
    @Test func looksFromOutsideSeeWhatTheyCan() throws {
        try open { _ in }.close()
        let looks = Shared<[DatabaseStatus]>([])
        let db = try open { [url] _ in
            if !looks.value.isEmpty { return }
            let status = try SharedDatabase.status(ofDatabaseAt: url)
            looks.change { $0.append(status) }
        }
        let status = try #require(looks.value.first)
        #expect(status.unknowns.contains { $0.contains("was opening a database") }, "\(status)")
        try db.insert("Arthur")
        #expect(try SharedDatabase.status(ofDatabaseAt: url).unknowns == [])
    }
}
