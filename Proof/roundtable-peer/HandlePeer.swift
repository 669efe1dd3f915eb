import Foundation
import GRDBSQLite
import Roundtable
import RoundtableKernel
import RoundtableTestSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Writes by a raw handle, with a connection of its own and SQLite's C interface. It reads one command a line, and answers each with one line.
struct HandlePeer {
    private let author: String
    private let connection: OpaquePointer
    private let database: SharedDatabase
    private let handle: SharedDatabase.RawHandle
    private let progress: ProgressFile
    private let channel = CommandChannel()

    /// - parameter arguments: the path of the database, the author, the path of a `ProgressFile`.
    static func run(_ arguments: [String]) throws {
        guard arguments.count == 3 else { throw TestKitError("roundtable-peer handle DATABASE AUTHOR PROGRESS") }
        try HandlePeer(path: arguments[0], author: arguments[1], progress: arguments[2]).run()
    }

    private init(path: String, author: String, progress: String) throws {
        self.author = author
        self.progress = try ProgressFile(countingAt: progress)
        database = try SharedDatabase.open(at: URL(fileURLWithPath: path), schema: .unmanaged, as: author)
        var connection: OpaquePointer?
        guard sqlite3_open(path, &connection) == SQLITE_OK, let connection else { throw TestKitError("open \(path)") }
        self.connection = connection
        sqlite3_busy_timeout(connection, 5000)
        handle = try SharedDatabase.RawHandle(attachedTo: connection, of: database)
    }

    private func run() throws {
        var committed = 0
        channel.reply("open")
        while true {
            let words = String(decoding: channel.nextLine(), as: UTF8.self).split(separator: " ").map(String.init)
            switch words.first {
            case nil: continue
            case "loop": try loop(seconds: Double(words[1])!, duration: Double(words[2])!, &committed)
            case "write":
                try writeOnce(tables: words.count == 1 ? ["entry"] : nil, &committed)
                channel.reply("written")
            case "hold": try hold(inTransaction: words[1] == "transaction", &committed)
            case "commit-and-die":
                try handle.withTurn {
                    try insert(committed + 1)
                    try execute("COMMIT")
                    progress.record(committed + 1)
                    _exit(3)
                }
            case "close":
                try handle.detach()
                try database.close()
                guard sqlite3_close(connection) == SQLITE_OK else { throw TestKitError("the connection is in use") }
                return channel.reply("closed")
            default: channel.reply("unknown")
            }
        }
    }

    private func execute(_ sql: String) throws {
        guard sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK else {
            throw TestKitError("\(sql): \(String(cString: sqlite3_errmsg(connection)))")
        }
    }

    /// Begins a transaction, and inserts the row.
    private func insert(_ number: Int) throws {
        try execute("BEGIN IMMEDIATE")
        try execute("INSERT INTO entry (author, n, part) VALUES ('\(author)', \(number), 0)")
    }

    /// Commits one row in a turn of its own.
    ///
    /// - parameter duration: how long the transaction lasts at least, in ms.
    /// - returns: how long it waited until it could write, in ms.
    @discardableResult
    private func writeOnce(tables: Set<String>?, duration: Double = 0, _ committed: inout Int) throws -> Double {
        let requested = MonotonicClock.now
        var waited: Nanoseconds = 0
        try handle.withTurn(tables: tables) {
            waited = MonotonicClock.now - requested
            try insert(committed + 1)
            usleep(UInt32(duration * 1000))
            try execute("COMMIT")
        }
        committed += 1
        progress.record(committed)
        return Double(waited) / 1e6
    }

    /// Writes until the time is over, or there is a command. Answers with the number of commits, and with the three longest waits in ms.
    private func loop(seconds: Double, duration: Double, _ committed: inout Int) throws {
        let end = MonotonicClock.now + Nanoseconds(seconds * 1e9)
        let before = committed
        var waits: [Double] = []
        while MonotonicClock.now < end, !channel.hasInput {
            waits.append(try writeOnce(tables: ["entry"], duration: duration, &committed))
        }
        let longest = (waits.sorted(by: >) + [0, 0, 0]).prefix(3).map { "\($0)" }
        channel.reply("\(committed - before) \(longest.joined(separator: " "))")
    }

    /// Holds a turn, perhaps with a transaction in it, until the next line.
    private func hold(inTransaction: Bool, _ committed: inout Int) throws {
        try handle.withTurn(tables: ["entry"]) {
            if inTransaction { try insert(committed + 1) }
            channel.reply("held")
            _ = channel.nextLine()
            if inTransaction { try execute("COMMIT") }
        }
        if inTransaction {
            committed += 1
            progress.record(committed)
        }
        channel.reply("released")
    }
}
