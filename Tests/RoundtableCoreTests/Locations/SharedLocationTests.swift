import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// What participants can share, and what they are told of the rest.
@Suite struct SharedLocationTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db ?%#.sqlite")
    }

    private func uri(_ change: (inout DatabaseURI) -> Void = { _ in }) -> DatabaseLocation {
        var uri = DatabaseURI(path: url.path)
        change(&uri)
        return .uri(uri)
    }

    private func open(_ location: DatabaseLocation) throws -> SharedDatabase {
        try SharedDatabase.open(at: location, schema: Schema(migrator()), as: "app")
    }

    @Test func filesAreShared() throws {
        let locations: [DatabaseLocation] = [
            .file(url), .file(path: url.path), uri(), uri { $0.mode = .readWriteCreate }, uri { $0.mode = .readWrite },
            uri { $0.cache = .private }, uri { $0.vfs = DatabaseURI.defaultVFS },
        ]
        for location in locations {
            let db = try open(location)
            #expect(db.path == System.resolvedPath(url.path) && db.role == .readWrite)
            try db.write { _ = try Player(name: "A").inserted($0) }
        }
        #expect(try open(.file(url)).read(Player.fetchCount) == locations.count)
    }

    @Test func whatBreaksSharingIsRefused() throws {
        try open(.file(url)).close()
        let before = try Data(contentsOf: url)
        let cases: [(DatabaseLocation, ShareHindrance)] = [
            (.memory(), .inMemory), (.memory(named: "a"), .inMemory), (.temporary, .temporary),
            (uri { $0.mode = .memory }, .inMemory),
            (.uri(DatabaseURI(path: ":memory:")), .inMemory), (.uri(DatabaseURI(path: "")), .temporary),
            (uri { $0.isUnlocked = true }, .unlocked), (uri { $0.isImmutable = true }, .immutable),
            (uri { $0.vfs = "unix-dotfile" }, .otherVFS("unix-dotfile", default: DatabaseURI.defaultVFS)),
            (uri { $0.cache = .shared }, .sharedCache), (uri { $0.isPowersafeOverwrite = true }, .powersafeOverwrite),
            (uri { $0.permissionsOf = "/tmp" }, .permissionsOf),
            (uri { $0.otherParameters = [.init("key", "1")] }, .unknownParameter("key")),
        ]
        for (location, hindrance) in cases {
            let expected = DatabaseLocationError.notShareable(location: location.description, hindrance)
            #expect(throws: expected) { try open(location) }
            #expect(throws: expected) {
                try SharedDatabase.openReadOnly(at: location, schema: Schema(migrator()), as: "app")
                    as SharedDatabase.Availability
            }
            #expect(expected.description.contains("UnsharedDatabase") || expected.description.contains("Leave it out"))
        }
        #expect(try Data(contentsOf: url) == before)
    }

    @Test func modes() async throws {
        #expect(throws: DatabaseLocationError.noSuchFile(path: url.path)) { try open(uri { $0.mode = .readWrite }) }
        #expect(throws: DatabaseLocationError.unavailable(path: url.path, .notCreated)) {
            try open(uri { $0.mode = .readOnly })
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [])
        let db = try open(uri())
        let reader = try await SharedDatabase.open(
            at: uri { $0.mode = .readOnly },
            schema: Schema(migrator()),
            as: "reader"
        )
        #expect(reader.role == .readOnly)
        try await db.write { _ = try Player(name: "A").inserted($0) }
        #expect(try await reader.read(Player.fetchCount) == 1)
        await #expect(throws: DatabaseError.self) { try await reader.write { _ = try Player(name: "B").inserted($0) } }
        let newer = DatabaseLocationError.unavailable(path: url.path, .schemaTooOld(missingMigrations: ["v2"]))
        await #expect(throws: newer) {
            try await SharedDatabase.open(
                at: uri { $0.mode = .readOnly },
                schema: Schema(migrator(upTo: 2)),
                as: "reader"
            )
        }
        guard
            case .available = try await SharedDatabase.openReadOnly(
                at: uri { $0.mode = .readWrite },
                schema: Schema(migrator()),
                as: "reader",
                waitingUpTo: .seconds(1)
            )
        else { return #expect(Bool(false), "unavailable") }
    }
}
