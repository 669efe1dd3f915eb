import GRDBSQLite

/// A version of the [SQLite](https://www.sqlite.org) library.
public struct SQLiteVersion: Sendable, Hashable, Comparable, CustomStringConvertible {
    package var major: Int
    package var minor: Int
    package var patch: Int

    package init(_ major: Int, _ minor: Int, _ patch: Int) {
        self.major = major
        self.minor = minor
        self.patch = patch
    }

    /// The library that this process runs with.
    public static var current: SQLiteVersion {
        // Each part has three digits: <https://www.sqlite.org/c3ref/libversion.html>.
        let number = Int(sqlite3_libversion_number())
        return SQLiteVersion(number / 1_000_000, number / 1000 % 1000, number % 1000)
    }

    /// Whether this version has [SQLite's WAL-reset bug](https://www.sqlite.org/wal.html#the_wal_reset_bug): when connections to a
    /// database in WAL mode checkpoint and commit at the same time, committed rows may be lost, and the database be corrupted.
    ///
    /// Versions from 3.7.0 on, which introduced WAL, up to 3.51.2 have it, except for the two older lines in which it was fixed: 3.44
    /// from 3.44.6 on, and 3.50 from 3.50.7 on. 3.52.0 does not have it: it was the first version with the fix, and was withdrawn for
    /// other reasons.
    ///
    /// A vendor may have fixed the bug without changing the version number. This property is then true although the bug is not there. It
    /// is never false although the bug is there.
    public var hasWALResetBug: Bool {
        switch (major, minor) {
        case (3, 44): patch < 6
        case (3, 50): patch < 7
        default: self >= SQLiteVersion(3, 7, 0) && self < SQLiteVersion(3, 51, 3)
        }
    }

    public var description: String { "\(major).\(minor).\(patch)" }

    public static func < (left: SQLiteVersion, right: SQLiteVersion) -> Bool {
        (left.major, left.minor, left.patch) < (right.major, right.minor, right.patch)
    }
}
