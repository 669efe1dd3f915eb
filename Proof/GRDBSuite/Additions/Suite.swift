import Foundation
import GRDB
import Roundtable
import Synchronization
import XCTest

/// What one run of GRDB's tests opens, and which tests it leaves out.
enum Suite {
    /// Whether the run is the control: every file is opened by GRDB's `DatabasePool`.
    static let isControl = ProcessInfo.processInfo.environment["ROUNDTABLE_GRDB_CONTROL"] != nil

    /// The tests that `scripts/test-grdb.sh` leaves out, one name a line.
    private static let leftOut: Set<String> = {
        guard let path = ProcessInfo.processInfo.environment["ROUNDTABLE_GRDB_LEAVE_OUT"] else { return [] }
        // The script writes the file. A run without it would count tests that were set aside.
        return Set(try! String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map(String.init))
    }()

    private struct Running {
        var test = ""
        var start = ContinuousClock.now
        var hasShared = false
    }

    private static let running = Synchronization.Mutex(Running())

    /// Stops the process when a test hangs. The script then reports the test as failed, and runs those that remain.
    private static let watchdog: Void = Thread.detachNewThread {
        while true {
            Thread.sleep(forTimeInterval: 1)
            let (test, start) = running.withLock { ($0.test, $0.start) }
            if ContinuousClock.now - start > .seconds(60) { fatalError("\(test) has not ended in 60 seconds") }
        }
    }

    /// Each test calls this before its own setup.
    static func begin(_ test: String) throws {
        _ = watchdog
        running.withLock { $0 = Running(test: test) }
        if leftOut.contains(test) { throw XCTSkip("left out") }
    }

    /// Says once a test that it has opened a shared database.
    private static func countShared() {
        let test = running.withLock { running -> String? in
            defer { running.hasShared = true }
            return running.hasShared ? nil : running.test
        }
        guard let test else { return }
        print("\nShared database opened by '\(test)'")
        // A crash would lose what is still buffered.
        fflush(nil)
    }

    /// Opens what the tests call a pool or a queue.
    static func open(_ path: String, _ configuration: Configuration) throws -> any DatabaseWriter {
        if isControl { return try GRDB.DatabasePool(path: path, configuration: configuration) }
        let url = URL(fileURLWithPath: path)
        var options = SharedDatabase.Options()
        options.configuration = configuration
        options.maximumReaderCount = configuration.maximumReaderCount
        switch configuration.busyMode {
        case .immediateError: options.busyMode = .immediateError
        case .timeout(let seconds): options.busyMode = .timeout(.seconds(seconds))
        // A callback of GRDB counts the tries of a connection, and one of Roundtable is asked about a wait.
        case .callback(let callback): options.busyMode = .callback { callback($0.tries) }
        }
        countShared()
        if configuration.readonly {
            switch try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: "suite", options: options) {
            case .available(let database): return database
            case .unavailable(let reason): throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "\(reason)")
            }
        }
        return try SharedDatabase.open(at: url, schema: .unmanaged, as: "suite", options: options)
    }

    /// Opens what the tests call a snapshot.
    static func snapshot(of base: any DatabaseWriter) throws -> any DatabaseReader {
        switch base {
        case let shared as SharedDatabase: return try shared.makeSnapshot()
        case let pool as GRDB.DatabasePool: return try pool.makeSnapshot()
        default: throw DatabaseError(message: "a database in memory has no snapshots")
        }
    }
}
