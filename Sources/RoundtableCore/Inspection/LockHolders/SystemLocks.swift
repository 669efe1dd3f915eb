import Foundation
import RoundtableKernel

/// The file locks that the system lists. The list is read without opening any file of the database (rule G5).
package enum SystemLocks {
    /// The process that holds the write lock of a database: byte 120 of `-shm` in WAL mode, else PENDING or RESERVED of the file itself
    /// (<https://www.sqlite.org/walformat.html>, <https://www.sqlite.org/lockingv3.html>). nil when no process holds it, or when the
    /// system does not list locks (Linux alone does, in `/proc/locks`).
    package static func writer(databasePath: String) -> Int32? { writeLock(databasePath: databasePath)?.pid }

    /// The write lock of a database.
    struct WriteLock: Equatable {
        let pid: Int32
        /// Whether its holder waits for readers of a database with a rollback journal to end, or has waited for them (PENDING).
        let isPending: Bool
    }

    /// nil as for ``writer(databasePath:)``.
    static func writeLock(databasePath: String) -> WriteLock? {
        #if os(Linux)
            guard let locks = list()?.filter(\.isNamed) else { return nil }
            func holder(_ path: String, _ range: ClosedRange<UInt64>) -> Lock? {
                guard let file = LockedFile(path) else { return nil }
                return locks.first { file.has($0) && $0.isWrite && $0.range.overlaps(range) }
            }
            if let lock = holder(databasePath + "-shm", 120...120) { return WriteLock(pid: lock.pid, isPending: false) }
            return holder(databasePath, 0x4000_0000...0x4000_0001).map {
                WriteLock(pid: $0.pid, isPending: $0.range.contains(0x4000_0000))
            }
        #else
            return nil
        #endif
    }

    /// The processes that read a database with a rollback journal at this moment: they hold SHARED on the file. In WAL mode, every
    /// connection holds that lock, and one on `-shm`. Empty when the system does not list locks.
    static func rollbackReaders(databasePath: String) -> [Int32] {
        #if os(Linux)
            guard let locks = list()?.filter(\.isNamed), let file = LockedFile(databasePath) else { return [] }
            let walIndex = LockedFile(databasePath + "-shm")
            let readers = locks.filter { file.has($0) && $0.range.overlaps(0x4000_0002...0x4000_01FF) }.map(\.pid)
            return Set(readers).subtracting(locks.filter { walIndex?.has($0) == true }.map(\.pid)).sorted()
        #else
            return []
        #endif
    }

    /// The processes that have a database open, or use it at this moment, by their locks on the file itself or on `-shm`. In WAL mode,
    /// every connection holds such a lock while it is open; otherwise, while it reads or writes. Empty when the system does not list
    /// locks.
    package static func users(databasePath: String) -> [Int32] {
        #if os(Linux)
            let files = [databasePath, databasePath + "-shm"].compactMap(LockedFile.init)
            let locks = (list() ?? []).filter { lock in lock.isNamed && files.contains { $0.has(lock) } }
            return Set(locks.map(\.pid)).sorted()
        #else
            return []
        #endif
    }

    #if os(Linux)
        /// nil when the list cannot be read.
        static func list() -> [Lock]? {
            guard let bytes = try? ProcessTable.contents(of: "/proc/locks") else { return nil }
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap(Lock.init)
        }
    #endif

    /// The owners of those locks of a wal-index that matter to checkpoints.
    package struct WalLocks: Equatable {
        /// The process that holds CKPT: it is checkpointing. nil when there is none.
        package var checkpointing: Int32?
        /// The read marks that each process holds, by its pid.
        var readMarks: [Int32: Set<Int>] = [:]
        /// The processes that hold the lock of a read mark, the lowest pid first.
        package var readers: [Int32] { readMarks.keys.sorted() }
    }

    /// nil when the system does not list locks.
    package static func walLocks(databasePath: String) -> WalLocks? {
        #if os(Linux)
            guard let bytes = try? ProcessTable.contents(of: "/proc/locks") else { return nil }
            guard let file = LockedFile(databasePath + "-shm") else { return nil }
            return WalLocks(list: String(decoding: bytes, as: UTF8.self), of: file)
        #else
            return nil
        #endif
    }

    #if os(Linux)
        /// A file whose locks are looked for.
        struct LockedFile {
            let inode: UInt64
            /// nil where the list names another device than `stat` reports, so that the inode alone identifies the file.
            let device: UInt64?

            init(inode: UInt64, device: UInt64?) { (self.inode, self.device) = (inode, device) }

            /// nil when there is no such file.
            init?(_ path: String) {
                guard let identity = try? System.identity(ofFileAt: path) else { return nil }
                let type = try? System.fileSystemType(holding: path)
                let isListed = type.map { !Self.withOtherDevices.contains($0) } ?? false
                self.init(inode: identity.inode, device: isListed ? identity.device : nil)
            }

            func has(_ lock: Lock) -> Bool { lock.inode == inode && (device == nil || lock.device == device) }

            /// overlayfs, Btrfs and Bcachefs: what `stat` reports as the device of a file there is that of a layer or of a subvolume.
            private static let withOtherDevices: Set<UInt32> = [0x794C_7630, 0x9123_683E, 0xCA45_1A4E]
        }

        /// A line such as `1: POSIX  ADVISORY  WRITE 2775 fe:00:16220171 120 120` (proc_locks(5)).
        struct Lock {
            /// The pid of a lock of an open file description, which no process owns alone.
            static let unnamed: Int32 = -1

            let isWrite: Bool
            let pid: Int32
            var isNamed: Bool { pid != Self.unnamed }
            /// As `stat` reports it.
            let device: UInt64
            let inode: UInt64
            let range: ClosedRange<UInt64>

            init?(_ line: Substring) {
                let fields = line.split(separator: " ", omittingEmptySubsequences: true)
                guard fields.count >= 8, fields[1] != "->", let pid = Int32(fields[4]), pid > 0 || pid == Self.unnamed,
                    let start = UInt64(fields[6])
                else { return nil }
                let file = fields[5].split(separator: ":")
                guard file.count == 3, let major = UInt64(file[0], radix: 16), let minor = UInt64(file[1], radix: 16),
                    let inode = UInt64(file[2])
                else { return nil }
                let end = fields[7] == "EOF" ? UInt64.max : UInt64(fields[7]) ?? 0
                guard start <= end else { return nil }
                self.isWrite = fields[3] == "WRITE"
                self.pid = pid
                // makedev(3)
                device = (major & 0xFFF) << 8 | (major & ~0xFFF) << 32 | minor & 0xFF | (minor & ~0xFF) << 12
                self.inode = inode
                self.range = start...end
            }
        }
    #endif
}

#if os(Linux)
    extension SystemLocks.WalLocks {
        /// - parameter list: the contents of `/proc/locks`, where neighbouring bytes that one process holds are one lock.
        init(list: String, of file: SystemLocks.LockedFile) {
            for line in list.split(separator: "\n") {
                guard let lock = SystemLocks.Lock(line), lock.isNamed, file.has(lock) else { continue }
                if lock.isWrite, lock.range.contains(121) { checkpointing = lock.pid }
                guard !lock.isWrite else { continue }
                let marks = (0..<WalIndexView.readMarkCount).filter { lock.range.contains(UInt64(123 + $0)) }
                if !marks.isEmpty { readMarks[lock.pid, default: []].formUnion(marks) }
            }
        }
    }
#endif
