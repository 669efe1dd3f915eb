import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore

/// Opening beside files that do not belong to the database that is there (rule W12g). Dead participants are in `ProcessTests.ForeignFiles`.
@Suite struct ForeignCompanionsTests {
    typealias Damage = LostFileTests.Damage
    private let world: LostFileTests.World
    private var path: String { world.url.path }

    init() throws { world = try LostFileTests.World() }

    private func opened() throws -> SharedDatabase {
        let db = try world.open()
        try db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('kept')") }
        return db
    }

    /// - parameter words: what the error says.
    private func expectRefusal(_ words: [String], sourceLocation: SourceLocation = #_sourceLocation) async {
        func check(_ error: (any Error)?) {
            guard case .foreignFiles(path, let reason)? = error as? SharedDatabaseError else {
                Issue.record("\(error.map { "\($0)" } ?? "no error")", sourceLocation: sourceLocation)
                return
            }
            for word in words { #expect(reason.contains(word), sourceLocation: sourceLocation) }
        }
        check(#expect(throws: (any Error).self, sourceLocation: sourceLocation) { try world.open(as: "late") })
        if FileManager.default.fileExists(atPath: path) {
            check(
                await #expect(throws: (any Error).self, sourceLocation: sourceLocation) {
                    try await SharedDatabase.openReadOnly(at: world.url, schema: SharedSchema(migrator()), as: "reader")
                }
            )
        }
    }

    private func moveCompanionsAway() throws {
        for suffix in ["-wal", "-shm"] {
            try FileManager.default.moveItem(atPath: path + suffix, toPath: path + ".former" + suffix)
        }
    }

    private func count(_ db: SharedDatabase) throws -> Int { try db.read { try Player.fetchCount($0) } }

    /// SQLite would remove a `-wal` without its database, and the commits in it.
    @Test func theDatabaseIsGone() async throws {
        let db = try opened()
        let wal = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
        try Damage.moved.make(path)
        await expectRefusal(["the database is gone", "move \(path)-wal and \(path)-shm away"])
        #expect(try DatabaseDiagnosis(ofDatabaseAt: world.url).findings.map(\.topic).contains(.foreignFiles))
        #expect(try Data(contentsOf: URL(fileURLWithPath: path + "-wal")) == wal)
        // An empty file is no database either.
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        #expect(throws: SharedDatabaseError.self) { try world.open(as: "late") }
        try FileManager.default.removeItem(atPath: path)
        try moveCompanionsAway()
        try db.close()
        let next = try world.open(as: "next")
        #expect(try count(next) == 0)
        try next.close()
    }

    /// SQLite would apply the `-wal` of the former file to the one that has its name now.
    @Test func theDatabaseIsAnother() async throws {
        let db = try opened()
        try Damage.replaced.make(path)
        let before = try Data(contentsOf: world.url)
        await expectRefusal(["belongs to another database file", "'app' (pid \(getpid()))", "roundtable doctor"])
        #expect(try Data(contentsOf: world.url) == before)
        #expect(try DatabaseDiagnosis(ofDatabaseAt: world.url).findings.map(\.topic).contains(.foreignFiles))
        try moveCompanionsAway()
        try db.close()
        let next = try world.open(as: "next")
        try await next.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('next')") }
        // The other database is beside it.
        let other = try world.open(as: "other")
        #expect(try count(other) == count(next))
        try other.close()
        try next.close()
    }

    /// What is advised can be pasted into a shell, whatever the path (SECURITY: SW1).
    @Test func theAdviceIsQuoted() throws {
        let path = world.folder.file("a'b; touch x").path
        for ending in ["-wal", "-shm"] { try Data([1]).write(to: URL(fileURLWithPath: path + ending)) }
        let advice = try #require(ForeignCompanions.find(databasePath: path)).advice
        #expect(advice.contains("move \("\(path)-wal".shellQuotedPath) and \("\(path)-shm".shellQuotedPath) away"))
        #expect(!advice.contains("a'b;"), "\(advice)")
    }

    /// A `-wal` without content does no harm.
    @Test func anEmptyWALIsNoObstacle() throws {
        let db = try opened()
        try db.checkpoint(.truncate)
        try Damage.replaced.make(path)
        let next = try world.open(as: "next")
        #expect(try count(next) == 1)
        try next.close()
        try db.close()
    }

    /// While a participant has a `-wal` that was removed, only this participant has what it has committed.
    @Test(arguments: [Damage.walRemoved, .walReplaced, .walIndexRemoved])
    func aParticipantHasOtherCompanions(damage: Damage) async throws {
        let db = try opened()
        try damage.make(path)
        await expectRefusal(["-wal or -shm of 'app' (pid \(getpid()))", "roundtable doctor", "end that process"])
        #expect(try DatabaseDiagnosis(ofDatabaseAt: world.url).findings.map(\.topic).contains(.lostFile))
        try db.close()
        let next = try world.open(as: "next")
        try next.close()
    }

    ///     one that opens                     another
    ///     reads what participants show
    ///                                        makes the files, and shows them
    ///     looks at the files
    ///
    /// The files belong together, whenever the look comes.
    @Test func anotherMakesTheFilesMeanwhile() throws {
        let looks = Shared(0)
        var turn = 0
        repeat {
            turn += 1
            let world = try LostFileTests.World()
            let former = try world.open()
            try Damage.setMoved.make(world.url.path)
            looks.change { $0 = 0 }
            let other = Shared<SharedDatabase?>(nil)
            let found = System.withInterposed { [turn] call in
                guard call == .stat else { return }
                looks.change { $0 += 1 }
                guard looks.value == turn else { return }
                #expect(throws: Never.self) {
                    let db = try world.open(as: "other")
                    other.change { $0 = db }
                }
            } _: {
                ForeignCompanions.find(databasePath: world.url.path)
            }
            #expect(found == nil, "at look \(turn): \(found?.explanation ?? "")")
            try other.value?.close()
            try former.close()
        } while turn <= looks.value
        #expect(turn > DatabaseFiles.Part.allCases.count)
    }

    /// The whole set belongs together, whatever participants of another set show.
    @Test func aWholeSetIsOpened() throws {
        let db = try opened()
        try Damage.setMoved.make(path)
        let next = try world.open(as: "next")
        try next.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('next')") }
        let other = try world.open(as: "other")
        #expect(try count(other) == 1)
        try other.close()
        try next.close()
        try db.close()
    }
}
