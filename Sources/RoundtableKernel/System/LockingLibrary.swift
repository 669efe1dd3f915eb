/// A library that locks its files. iOS kills a process that is frozen with such a lock in a shared container, whatever its databases do.
package enum LockingLibrary: String, CaseIterable, Sendable {
    case lmdb = "LMDB"
    case mmkv = "MMKV"
    case realm = "Realm"

    /// `MDB_MAGIC` of LMDB's `mdb.c`, as little-endian machines write it.
    private static let magicOfLMDB: [UInt8] = [0xDE, 0xC0, 0xEF, 0xBE]
    /// The size of the page header (`PAGEHDRSZ`), which precedes the magic in a data file.
    private static let pageHeaderOfLMDB = 16

    /// Recognizes a file of a library by its name, or by its first bytes as far as the caller knows them. No file is opened.
    ///
    /// - parameter isThere: whether there is a file of this path. MMKV's lock file has the name of another file and a suffix.
    package init?(ofFileAt path: String, header: [UInt8] = [], isThere: (String) -> Bool) {
        let name = path.split(separator: "/").last ?? ""
        if Self.isOfLMDB(header) || ["lock.mdb", "data.mdb"].contains(name) {
            self = .lmdb
        } else if [".realm", ".realm.lock", ".realm.note", ".realm.management"].contains(where: name.hasSuffix)
            || path.contains(".realm.management/")
        {
            self = .realm
        } else if name.hasSuffix(".crc"), name.count > 4, isThere(String(path.dropLast(4))) {
            self = .mmkv
        } else {
            return nil
        }
    }

    private static func isOfLMDB(_ header: [UInt8]) -> Bool {
        header.starts(with: magicOfLMDB) || header.dropFirst(pageHeaderOfLMDB).starts(with: magicOfLMDB)
    }

    /// How long a lock lasts, as a clause, and what to do about it. Neither ends with a full stop.
    package var advice: (lasts: String, next: String) {
        switch self {
        case .lmdb:
            (
                "keeps a lock on its lock file while an environment is open",
                "Keep its files in the app's own container, or close the environment (mdb_env_close) before the process is suspended"
            )
        case .mmkv:
            (
                "locks its .crc files during each access in multi-process mode",
                "Keep its files in the app's own container, or access them only while the process holds an assertion"
            )
        case .realm:
            (
                "keeps a lock on its .lock file while a Realm is open",
                "Keep its files in the app's own container, or release all of its Realm objects before the process is suspended"
            )
        }
    }
}
