import GRDB
import Roundtable
import RoundtableUnitSupport
import Testing

@Suite struct SQLiteVersionTests {
    /// <https://www.sqlite.org/wal.html#the_wal_reset_bug>
    @Test(arguments: [
        // These versions are older than WAL.
        (SQLiteVersion(2, 8, 17), false),
        (SQLiteVersion(3, 0, 0), false),
        (SQLiteVersion(3, 6, 23), false),
        (SQLiteVersion(3, 7, 0), true),
        (SQLiteVersion(3, 40, 1), true),
        (SQLiteVersion(3, 43, 2), true),
        (SQLiteVersion(3, 44, 0), true),
        (SQLiteVersion(3, 44, 5), true),
        (SQLiteVersion(3, 44, 6), false),
        (SQLiteVersion(3, 44, 7), false),
        (SQLiteVersion(3, 45, 0), true),
        (SQLiteVersion(3, 49, 2), true),
        (SQLiteVersion(3, 50, 0), true),
        (SQLiteVersion(3, 50, 6), true),
        (SQLiteVersion(3, 50, 7), false),
        (SQLiteVersion(3, 50, 8), false),
        (SQLiteVersion(3, 51, 0), true),
        (SQLiteVersion(3, 51, 2), true),
        (SQLiteVersion(3, 51, 3), false),
        (SQLiteVersion(3, 51, 4), false),
        // This version was withdrawn, but not for this bug.
        (SQLiteVersion(3, 52, 0), false),
        (SQLiteVersion(3, 53, 4), false),
        (SQLiteVersion(4, 0, 0), false),
    ])
    func `Which versions have the WAL-reset bug`(version: SQLiteVersion, expected: Bool) {
        #expect(version.hasWALResetBug == expected, "\(version)")
    }

    @Test func `The running version is what SQLite says`() throws {
        let said = try DatabaseQueue().read { try String.fetchOne($0, sql: "SELECT sqlite_version()") }
        #expect(SQLiteVersion.current.description == said)
    }
}
