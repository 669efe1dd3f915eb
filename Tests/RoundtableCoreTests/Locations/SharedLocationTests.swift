import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// These locations can be shared, and users of the other ones get an error.
@Suite struct SharedLocationTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db ?%#.sqlite")
    }

    private func open(_ url: URL) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
    }

    @Test func filesAreShared() throws {
        let local = try #require(URL(string: "file://localhost" + url.absoluteString.dropFirst("file://".count)))
        let escaped = try #require(URL(string: url.absoluteString.replacingOccurrences(of: "/db", with: "/%64b")))
        let queries = [
            "mode=rwc", "mode=rw", "cache=private", "vfs=\(DatabaseURI.defaultVFS)", "immutable=0&nolock=off&",
        ]
        let locations = [url, local, escaped] + queries.map(url.sqlite)
        for location in locations {
            let db = try open(location)
            #expect(db.path == System.resolvedPath(url.path) && db.role == .readWrite)
            try db.write { _ = try Player(name: "A").inserted($0) }
        }
        #expect(try open(url).read(Player.fetchCount) == locations.count)
    }

    @Test func whatBreaksSharingIsRefused() throws {
        try open(url).close()
        let before = try Data(contentsOf: url)
        let standard = DatabaseURI.defaultVFS
        func location(_ text: String) throws -> URL { try #require(URL(string: text)) }
        let cases = [
            (try location("file:a?mode=memory&cache=shared"), "a database in memory belongs to one process"),
            (try location("file::memory:"), "a database in memory belongs to one process"),
            (url.sqlite("mode=memory"), "a database in memory belongs to one process"),
            (try location("file:"), "a temporary database belongs to one connection"),
            (url.sqlite("nolock=1"), "nolock takes no locks"),
            (url.sqlite("mode=ro&nolock=ON"), "nolock takes no locks"),
            (url.sqlite("immutable=1"), "immutable says that the file cannot change"),
            (url.sqlite("vfs=unix-dotfile"), "VFS 'unix-dotfile' are not those of the default one, '\(standard)'"),
            (url.sqlite("cache=shared"), "cache=shared makes readers and writers"),
            (url.sqlite("psow=1"), "psow would have to be the same"), (url.sqlite("psow=0"), "psow would have to be"),
            (url.sqlite("modeof=/tmp"), "modeof is about one of several files"),
            (url.sqlite("key=1"), "cannot make every process use 'key' in the same way"),
            (url.sqlite("Mode=rw"), "cannot make every process use 'Mode' in the same way"),
        ]
        for (location, reason) in cases {
            let error = #expect(throws: DatabaseLocationError.self) { try open(location) }
            let refusal = try #require(error)
            guard case .notShareable(let named, let why) = refusal else {
                Issue.record("\(location): \(refusal)")
                continue
            }
            #expect(try named == DatabaseURI(location).description && why.contains(reason), "\(why)")
            #expect(why.contains("UnsharedDatabase") || why.contains("Leave it out"))
            #expect(throws: refusal) {
                try SharedDatabase.openReadOnly(at: location, schema: SharedSchema(migrator()), as: "app")
                    as SharedDatabase.Availability
            }
        }
        #expect(try Data(contentsOf: url) == before)
    }

    @Test func modes() async throws {
        let path = System.resolvedPath(url.path)
        #expect(throws: DatabaseLocationError.noSuchFile(path: path)) { try open(url.sqlite("mode=rw")) }
        #expect(throws: DatabaseLocationError.unavailable(path: path, .notCreated)) {
            try open(url.sqlite("mode=ro"))
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [])
        // A file without content is there, and SQLite opens it.
        try Data().write(to: url)
        try open(url.sqlite("mode=rw")).close()
        let db = try open(url)
        let reader = try await SharedDatabase.open(
            at: url.sqlite("mode=ro"),
            schema: SharedSchema(migrator()),
            as: "reader"
        )
        #expect(reader.role == .readOnly)
        try await db.write { _ = try Player(name: "A").inserted($0) }
        #expect(try await reader.read(Player.fetchCount) == 1)
        await #expect(throws: DatabaseError.self) { try await reader.write { _ = try Player(name: "B").inserted($0) } }
        let newer = DatabaseLocationError.unavailable(path: path, .schemaTooOld(missingMigrations: ["v2"]))
        await #expect(throws: newer) {
            try await SharedDatabase.open(
                at: url.sqlite("mode=ro"),
                schema: SharedSchema(migrator(upTo: 2)),
                as: "reader"
            )
        }
        guard
            case .available = try await SharedDatabase.openReadOnly(
                at: url.sqlite("mode=rw"),
                schema: SharedSchema(migrator()),
                as: "reader",
                waitingUpTo: .seconds(1)
            )
        else { return #expect(Bool(false), "unavailable") }
    }
}
