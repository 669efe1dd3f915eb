import CRoundtableTestSupport
import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableTestSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Forks, uses the database and opens it again in the child, and returns the errors that the child got (rule W4).
///
/// The child reports through a pipe and ends with `_exit`, which closes or flushes nothing that belongs to the parent.
func errorOfForkedChild(_ database: SharedDatabase) throws -> String {
    var connection: OpaquePointer?
    guard sqlite3_open_v2(database.path, &connection, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK, let connection else {
        throw TestKitError("sqlite3_open_v2: \(database.path)")
    }
    defer { sqlite3_close(connection) }
    let handle = try SharedDatabase.RawHandle(attachedTo: connection, of: database)
    defer { try? handle.detach() }
    let closed = URL(fileURLWithPath: database.path + ".closed")
    try (SharedDatabase.open(at: closed, schema: .unmanaged, as: "fork") as SharedDatabase).close()
    // Another thread of the parent may be changing the table of guarded mappings.
    let problem = rt_fork_while_changing(100)
    guard problem == 0 else { throw TestKitError("fork while mappings change: \(String(cString: strerror(problem)))") }
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw TestKitError("pipe: \(String(cString: strerror(errno)))") }
    defer { close(ends[0]) }
    try waitUntilOtherThreadsSleep()
    let child = rt_fork()
    if child == 0 {
        let url = URL(fileURLWithPath: database.path)
        let report = [
            outcome("write") { try database.write { try $0.execute(sql: "DELETE FROM entry") } },
            outcome("writeWithoutTransaction") {
                try database.writeWithoutTransaction { try $0.execute(sql: "DELETE FROM entry") }
            },
            outcome("read") { _ = try database.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") } },
            outcome("withTurn") { try handle.withTurn {} },
            // A detach in the child must fail, because the connection is the parent's.
            outcome("detach") { try handle.detach() },
            outcome("close") { try database.close() },
            outcome("open") { _ = try SharedDatabase.open(at: url, schema: .unmanaged, as: "child") as SharedDatabase },
            outcome("openReadOnly") {
                _ =
                    try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: "child")
                    as SharedDatabase.Availability
            },
            outcome("openQueue") { _ = try UnsharedDatabase.openQueue(at: url) },
            outcome("status") { _ = try DatabaseStatus(ofDatabaseAt: url) },
            outcome("closed before") { _ = try DatabaseStatus(ofDatabaseAt: closed) },
        ]
        let text = [UInt8](report.joined(separator: "\n").utf8)
        _ = text.withUnsafeBytes { write(ends[1], $0.baseAddress, $0.count) }
        _exit(0)
    }
    close(ends[1])
    guard child > 0 else { throw TestKitError("fork: \(String(cString: strerror(errno)))") }
    defer {
        // A child that hangs fails the test, and must not be left behind.
        kill(child, SIGKILL)
        var status: Int32 = 0
        while waitpid(child, &status, 0) == -1, errno == EINTR {}
    }
    var text: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    var request = pollfd(fd: ends[0], events: Int16(POLLIN), revents: 0)
    while poll(&request, 1, 10_000) > 0 {
        let count = read(ends[0], &buffer, buffer.count)
        if count <= 0 { return String(decoding: text, as: UTF8.self) }
        text += buffer[..<count]
    }
    throw TestKitError("the forked child said nothing within 10 s")
}

/// Returns when every other thread of this process sleeps.
///
/// Swift code in a child of `fork` hangs at a lock of Swift's runtime that another thread held during the fork: debug code, for example,
/// looks up generic metadata, which a lock guards. A thread that sleeps in the kernel holds no such lock.
private func waitUntilOtherThreadsSleep() throws {
    #if os(Linux)
        let own = (try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self") as NSString)
            .lastPathComponent
        var running: [String] = []
        for _ in 0..<10_000 {
            running = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").filter { thread in
                guard thread != own else { return false }
                // The state follows the name, which is in parentheses and may contain any character. A thread that has ended has no file.
                guard let stat = try? String(contentsOfFile: "/proc/self/task/\(thread)/stat", encoding: .utf8) else {
                    return false
                }
                return stat[(stat.lastIndex(of: ")") ?? stat.startIndex)...].dropFirst(2).first != "S"
            }
            if running.isEmpty { return }
            usleep(1000)
        }
        throw TestKitError("Threads \(running) of the parent ran for 10 s, so it could not fork.")
    #endif
}

private func outcome(_ name: String, _ body: () throws -> Void) -> String {
    do {
        try body()
        return "\(name): no error"
    } catch {
        return "\(name): \(error)"
    }
}
