import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableTestKit

/// A process of `roles`, which a fleet starts.
struct RolesWorker: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "roles-worker", shouldDisplay: false)

    func run() async throws {
        await Fleet.runRole(["worker": { try await Self.work($0) }])
        throw ValidationError("only a fleet starts this command")
    }

    private static func work(_ worker: Worker) async throws {
        #if os(Linux)
            try SuspensionSubject.connectSharedDatabases()
        #endif
        let terms = worker.arguments["terms"].flatMap(Int.init) ?? 0
        let defect = worker.arguments["defect"].flatMap(RolesDefect.init)
        let number = worker.number
        var database = try RolesWorld.open(in: worker.folder, as: "worker \(number)")
        var random = SystemRandomNumberGenerator()
        while try await count(database) < terms {
            do {
                // Some wait for a short time only, and some tasks are cancelled.
                let timeout: Duration? = Int.random(in: 0..<4, using: &random) == 0 ? .milliseconds(300) : nil
                let writes = Int.random(in: 1...40, using: &random)
                let pause = Duration.milliseconds(Int.random(in: 0...10, using: &random))
                let priority = SharedDatabase.TurnPriority.allCases.randomElement(using: &random)!
                let waiting = Task { [database] in
                    try await hold(database, priority, timeout, writes: writes, pause, number, defect)
                }
                let timer = Task {
                    try await Task.sleep(for: .milliseconds(Int.random(in: 200...5_000)))
                    if Bool.random() { waiting.cancel() }
                }
                defer { timer.cancel() }
                try await waiting.value
            } catch is RoleError {
                // It was passed over, or had no time.
            } catch is CancellationError {
            }
            if Int.random(in: 0..<20, using: &random) == 0 {
                try await close(database)
                database = try RolesWorld.open(in: worker.folder, as: "worker \(number)")
            }
        }
        try await close(database)
    }

    private static func close(_ database: SharedDatabase) async throws { try database.close() }

    private static func count(_ database: SharedDatabase) async throws -> Int {
        try await database.read { try Int.fetchOne($0, sql: "SELECT coalesce(max(generation), 0) FROM log") ?? 0 }
    }

    private static func hold(
        _ database: SharedDatabase,
        _ priority: SharedDatabase.TurnPriority,
        _ timeout: Duration?,
        writes: Int,
        _ pause: Duration,
        _ number: Int,
        _ defect: RolesDefect?
    ) async throws {
        let role = database.role(RolesWorld.role)
        try await role.hold(priority: priority, timeout: timeout, patience: RolesWorld.patience) { term in
            for _ in 0..<writes {
                let note: @Sendable (Database) throws -> Void = { db in
                    try db.execute(
                        sql: "INSERT INTO log (generation, worker, time) VALUES (?, ?, ?)",
                        arguments: [term.generation, number, Int64(Date().timeIntervalSince1970 * 1_000)]
                    )
                }
                if defect == .noCheck {
                    try await database.write { try note($0) }
                } else {
                    try await term.write { try note($0) }
                }
                try await Task.sleep(for: pause)
            }
        }
    }
}
