import Foundation
import GRDB
import Roundtable
import RoundtableKernel
@_exported import RoundtableTestSupport
import Synchronization
import Testing

@testable import RoundtableJobs

struct Mail: Codable, Sendable, Equatable {
    var to: String
}

/// A database with the tables of jobs, and one table for effects.
final class JobsFixture: Sendable {
    let folder: TemporaryFolder
    var url: URL { folder.file("jobs.sqlite") }
    /// The suspension state of its own, not that of other tests.
    let process = ProcessSuspension()

    init() throws { folder = try TemporaryFolder() }

    func open(
        _ author: String = "app",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("jobs") { db in
            try db.createJobTables()
            try db.execute(sql: "CREATE TABLE effect (job INTEGER, attempt INTEGER)")
        }
        var options = SharedDatabase.Options()
        options.process = process
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: author, options: options)
    }
}

extension JobTime {
    /// A time of a fake clock.
    static func at(_ time: Int64, boot: String = "boot") -> JobTime { JobTime(boot: time, bootID: boot, wall: time) }
}

/// A moment for which any number of tasks wait.
final class Signal: Sendable {
    private struct State {
        var isRaised = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }
    private let state = Mutex(State())

    func raise() {
        let waiting = state.withLock { state in
            state.isRaised = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Does not end earlier when the task is cancelled.
    func wait() async {
        await withCheckedContinuation { continuation in
            let isRaised = state.withLock { state in
                if !state.isRaised { state.waiting.append(continuation) }
                return state.isRaised
            }
            if isRaised { continuation.resume() }
        }
    }
}
