#if os(Linux)
    import Foundation
    import Glibc
    import Testing

    @testable import RoundtableTestKit

    /// What the suspension police reads of a process: here, of this one.
    @Suite struct OpenFilesTests {
        /// The header of a database decides whether a lock on its wal-index is judged, also while the database itself has no lock: a process
        /// that has closed another descriptor of it has lost that lock.
        @Test func aLockOnTheWalIndexAlone() throws {
            let folder = try TemporaryFolder()
            let path = folder.file("app.sqlite").path
            var header = Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0, count: 84)
            (header[16], header[18], header[19]) = (0x10, 2, 2)
            try Data(header).write(to: folder.file("app.sqlite"))
            let descriptors = [open(path, O_RDONLY), open(path + "-shm", O_RDWR | O_CREAT, 0o600)]
            defer { descriptors.forEach { close($0) } }
            var lock = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 120, l_len: 1, l_pid: 0)
            try #require(fcntl(descriptors[1], F_SETLK, &lock) == 0)
            let files = try #require(try OpenFile.all(of: getpid())).filter { $0.path.hasPrefix(path) }
            #expect(files.map(\.locks.count) == [0, 1])
            #expect(SuspensionLaw.documented.findings(in: files).map(\.rule) == [.walWriter])
        }
    }
#endif
