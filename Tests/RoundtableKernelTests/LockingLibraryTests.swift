import Testing

@testable import RoundtableKernel

/// Which library a file belongs to, by its name, its first bytes, and the names beside it.
@Suite struct LockingLibraryTests {
    private static let lmdbLock: [UInt8] = [0xDE, 0xC0, 0xEF, 0xBE, 2, 0, 0, 0]
    private static let lmdbData = [UInt8](repeating: 0, count: 16) + lmdbLock

    private static let cases: [(path: String, header: [UInt8], library: LockingLibrary?)] = [
        ("/g/lock.mdb", [], .lmdb), ("/g/data.mdb", [], .lmdb), ("lock.mdb", [], .lmdb),
        ("/g/notes-lock", lmdbLock, .lmdb), ("/g/notes", lmdbData, .lmdb),
        ("/g/notes-lock", [], nil), ("/g/notes-lock", Array(lmdbLock.reversed()), nil),
        ("/g/notes", Array(lmdbData.dropFirst()), nil), ("/g/notes", Array(lmdbLock.prefix(3)), nil),
        ("/g/block.mdb", [], nil), ("/g/lock.mdb.txt", [], nil),
        ("/g/default.realm", [], .realm), ("/g/default.realm.lock", [], .realm), ("/g/default.realm.note", [], .realm),
        ("/g/default.realm.management", [], .realm),
        ("/g/default.realm.management/access_control.write.mx", [], .realm),
        ("/g/realm", [], nil), ("/g/realm.lock", [], nil), ("/g/default.realm.lock.txt", [], nil),
        ("/g/settings.crc", [], .mmkv), ("/g/alone.crc", [], nil), ("/g/settings", [], nil), ("/g/.crc", [], nil),
        ("/g/app.sqlite", Array("SQLite format 3\0".utf8), nil), ("/g/its.lock", [], nil), ("/", [], nil),
        ("", [], nil),
    ]

    @Test(arguments: cases) func recognized(_ path: String, _ header: [UInt8], _ library: LockingLibrary?) {
        let isThere = { ["/g/settings", "/g/"].contains($0) }
        #expect(LockingLibrary(ofFileAt: path, header: header, isThere: isThere) == library)
    }
}
