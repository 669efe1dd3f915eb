import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// The documentation of threads holds: a `SharedDatabase`, a queue and a pool can be used, opened and closed from any thread.
@Suite struct ThreadSafetyTests {
    /// GRDB opens its connections without SQLite's mutexes, and lets one thread at a time use each; that takes a SQLite that is not built
    /// for one thread alone.
    @Test func sqliteIsBuiltForThreads() throws {
        let options = try DatabaseQueue().read { try String.fetchAll($0, sql: "PRAGMA compile_options") }
        #expect(options.contains { $0 == "THREADSAFE=1" || $0 == "THREADSAFE=2" }, "\(options)")
    }

    /// Many threads open, use and close the same location, alone and through a database that they share.
    @Test(.timeLimit(.minutes(2)), arguments: 0..<4) func manyThreads(kind: Int) async throws {
        let folder = try TemporaryFolder()
        let url = folder.file("db.sqlite")
        let name = UUID().uuidString
        let (threads, rounds) = (8, 12)
        @Sendable func open(_ author: String) throws -> any DatabaseWriter {
            var configuration = Configuration()
            configuration.busyMode = .timeout(60)
            switch kind {
            case 0:
                var options = SharedDatabase.Options()
                options.busyTimeout = .seconds(60)
                return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
                    as SharedDatabase
            case 1: return try UnsharedDatabase.openQueue(at: url, configuration: configuration)
            case 2: return try UnsharedDatabase.openPool(at: url, configuration: configuration)
            default: return try UnsharedDatabase.inMemory(named: name, configuration: configuration)
            }
        }
        let common = try open("common")
        if kind != 0 { try migrator().migrate(common) }
        let opensOwn = kind < 3
        let done = Shared(0)
        @Sendable func use(_ thread: Int) throws {
            for round in 0..<rounds {
                let own = opensOwn ? try open("\(thread)") : common
                try own.write { _ = try Player(name: "\(thread) \(round)").inserted($0) }
                try common.write { _ = try Player(name: "\(thread) \(round)").inserted($0) }
                #expect(try own.read(Player.fetchCount) >= 2 * (round + 1))
                if opensOwn { try own.close() }
                done.change { $0 += 2 }
            }
        }
        @Sendable func error(of body: () throws -> Void) -> String? {
            do { try body() } catch { return "\(error)" }
            return nil
        }
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<threads {
                group.addTask {
                    let error = await onThread { error(of: { try use(thread) }) }
                    #expect(error == nil)
                }
            }
        }
        #expect(done.value == 2 * threads * rounds)
        #expect(try await common.read { try Player.fetchCount($0) } == done.value)
    }
}
