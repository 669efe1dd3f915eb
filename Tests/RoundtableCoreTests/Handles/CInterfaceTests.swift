import Foundation
import GRDBSQLite
import Roundtable
import RoundtableC
import RoundtableUnitSupport
import Synchronization
import Testing

/// These tests check what `roundtable.h` says of wrong arguments, and of closing.
@Suite struct CInterfaceTests {
    let folder: TemporaryFolder
    private let database: Pointer

    /// C's pointers are for any thread.
    private struct Pointer: @unchecked Sendable { var raw: UnsafeMutableRawPointer? }

    init() throws {
        folder = try TemporaryFolder()
        var pointer: UnsafeMutableRawPointer?
        try #require(roundtableOpen(folder.file("c.sqlite").path, "c", &pointer, nil) == 0)
        database = Pointer(raw: pointer)
    }

    /// A code, and the message, whose memory is freed.
    private func outcome(_ body: (ErrorOutput) -> CInt) -> (code: CInt, message: String) {
        var message: UnsafeMutablePointer<CChar>?
        let code = body(&message)
        defer { roundtableFree(message) }
        return (code, message.map { String(cString: $0) } ?? "")
    }

    @Test func textMustBeUTF8() throws {
        let path = folder.file("x").path.utf8CString.dropLast() + [CChar(bitPattern: 0xff), 0]
        var other: UnsafeMutableRawPointer?
        let opened = outcome { roundtableOpen(Array(path), "c", &other, $0) }
        #expect(opened.code == SQLITE_MISUSE && opened.message.hasPrefix("path: not UTF-8"), "\(opened)")
        let author: [CChar] = [CChar(bitPattern: 0xff), 0]
        let named = outcome { roundtableOpen(folder.file("y").path, author, &other, $0) }
        #expect(named.code == SQLITE_MISUSE && named.message.hasPrefix("author: not UTF-8"), "\(named)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).allSatisfy { $0.hasPrefix("c.") })
        #expect(roundtableClose(database.raw, nil) == 0)
    }

    /// The time-out is counted in milliseconds, and is not the busy timeout of the database, which is longer.
    @Test(.timeLimit(.minutes(1))) func theTimeoutOfATurn() throws {
        let (one, other) = (try RawSQLite(folder.file("c.sqlite").path), try RawSQLite(folder.file("c.sqlite").path))
        var (first, second): (UnsafeMutableRawPointer?, UnsafeMutableRawPointer?)
        #expect(roundtableAttach(database.raw, one.pointer, &first, nil) == 0)
        #expect(roundtableAttach(database.raw, other.pointer, &second, nil) == 0)
        #expect(roundtableBeginTurn(first, 1000, 1, nil) == 0)
        try one.execute("BEGIN IMMEDIATE")
        // Another thread waits, because none must wait for its own turn.
        let waiting = Pointer(raw: second)
        let answer = Mutex<(code: CInt, waited: Duration)?>(nil)
        let isAnswered = DispatchSemaphore(value: 0)
        Thread {
            let began = ContinuousClock.now
            let code = roundtableBeginTurn(waiting.raw, 100, 1, nil)
            answer.withLock { $0 = (code, ContinuousClock.now - began) }
            isAnswered.signal()
        }
        .start()
        isAnswered.wait()
        let found = answer.withLock { $0 }
        let (code, waited) = try #require(found)
        #expect(code == SQLITE_BUSY)
        #expect(waited >= .milliseconds(100) && waited < SharedDatabase.Options().busyTimeout, "\(waited)")
        try one.execute("ROLLBACK")
        #expect(roundtableEndTurn(first, nil, 0, nil) == 0)
        #expect(roundtableBeginTurn(second, 10_000, 1, nil) == 0)
        #expect(roundtableEndTurn(second, nil, 0, nil) == 0)
        #expect(roundtableDetach(first, nil) == 0)
        #expect(roundtableDetach(second, nil) == 0)
        #expect(roundtableClose(database.raw, nil) == 0)
    }

    /// The turn is unchanged after a refused name.
    @Test func namesOfTablesAreChecked() throws {
        let raw = try RawSQLite(folder.file("c.sqlite").path)
        var handle: UnsafeMutableRawPointer?
        #expect(roundtableAttach(database.raw, raw.pointer, &handle, nil) == 0)
        #expect(roundtableBeginTurn(handle, 1000, 1, nil) == 0)
        let invalid: [CChar] = [CChar(bitPattern: 0xff), 0]
        invalid.withUnsafeBufferPointer { invalid in
            let names: [UnsafePointer<CChar>?] = [nil, invalid.baseAddress]
            names.withUnsafeBufferPointer { names in
                for (start, count) in [(0, -1), (0, Int.max), (0, 1), (1, 1)] {
                    let ended = outcome { roundtableEndTurn(handle, names.baseAddress! + start, count, $0) }
                    #expect(ended.code == SQLITE_MISUSE && !ended.message.isEmpty, "\(ended)")
                    #expect(roundtableIsInTurn(handle) == 1)
                }
            }
        }
        #expect(roundtableEndTurn(handle, nil, 0, nil) == 0)
        #expect(roundtableDetach(handle, nil) == 0)
        #expect(roundtableClose(database.raw, nil) == 0)
    }

    @Test func closingEndsWaitsForChanges() async throws {
        let database = database
        var version: UInt64 = 0
        #expect(roundtableVersion(database.raw, &version, nil) == 0)
        let start = version
        // The memory is still there, whichever comes first.
        let box = Unmanaged<AnyObject>.fromOpaque(try #require(database.raw)).retain()
        defer { box.release() }
        let isWaiting = Shared(false)
        let waiting = Task {
            await onThread {
                var version = start
                isWaiting.change { $0 = true }
                return roundtableWaitForChange(database.raw, &version, -1, nil)
            }
        }
        try await eventually("it is about to wait") { isWaiting.value }
        #expect(roundtableClose(database.raw, nil) == 0)
        #expect(await waiting.value & 0xff == SQLITE_MISUSE)
    }
}
