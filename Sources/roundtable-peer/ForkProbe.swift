import CRoundtableShims
import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableTestKit

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Forks, writes, reads and drops the database in the child, and returns what the child was told (rule W4).
///
/// The child reports through a pipe and leaves with `_exit`: nothing of its parent's is closed or flushed.
func errorOfForkedChild(_ database: SharedDatabase) throws -> String {
    var connection: OpaquePointer?
    guard sqlite3_open_v2(database.path, &connection, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK, let connection else {
        throw TestKitError("sqlite3_open_v2: \(database.path)")
    }
    defer { sqlite3_close(connection) }
    let handle = try SharedDatabase.Handle(attachedTo: connection, of: database)
    defer { try? handle.detach() }
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw TestKitError("pipe: \(String(cString: strerror(errno)))") }
    defer { close(ends[0]) }
    let child = rt_fork()
    if child == 0 {
        let report = [
            outcome("write") { try database.write { try $0.execute(sql: "DELETE FROM entry") } },
            outcome("writeWithoutTransaction") {
                try database.writeWithoutTransaction { try $0.execute(sql: "DELETE FROM entry") }
            },
            outcome("read") { _ = try database.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") } },
            outcome("beginTurn") { try handle.beginTurn() },
            // It would take the parent's place away.
            outcome("detach") { try handle.detach() },
            outcome("close") { try database.close() },
        ]
        let text = [UInt8](report.joined(separator: "\n").utf8)
        _ = text.withUnsafeBytes { write(ends[1], $0.baseAddress, $0.count) }
        _exit(0)
    }
    close(ends[1])
    guard child > 0 else { throw TestKitError("fork: \(String(cString: strerror(errno)))") }
    defer {
        // A child that hangs is a failed test, not a process left behind.
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

private func outcome(_ name: String, _ body: () throws -> Void) -> String {
    do {
        try body()
        return "\(name): no error"
    } catch {
        return "\(name): \(error)"
    }
}
