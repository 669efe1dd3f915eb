import Foundation
import Roundtable

/// What happens to the files of an open database in a round of the campaign `files`.
enum FileDamage: String, CaseIterable, Codable {
    case replaced, removed, recreated, recreatedWithSameInode, moved, setMoved, walRemoved, walReplaced,
        walIndexRemoved, mountedOver, quarantined, erased

    /// Makes it happen, with a few calls of the system at the end.
    ///
    /// - returns: false when it cannot be done here, and nothing has happened.
    func make(_ path: String) throws -> Bool {
        let names = [path, path + "-wal", path + "-shm"]
        switch self {
        case .replaced:
            try copy(path, path + ".copy")
            try check(rename(path + ".copy", path))
        case .removed: try check(unlink(path))
        case .recreated:
            for name in names { try check(unlink(name)) }
            try recreate(path)
        case .recreatedWithSameInode:
            // Where the system uses the number again at once. The open file keeps it, so others may get it and not this one.
            var status = stat()
            try check(stat(path, &status))
            for name in names { try check(unlink(name)) }
            for _ in 0..<64 {
                try recreate(path)
                var next = stat()
                if stat(path, &next) == 0, next.st_ino == status.st_ino { return true }
                try check(unlink(path))
            }
            try recreate(path)
        case .moved: try check(rename(path, path + ".away"))
        case .setMoved: for name in names { try check(rename(name, name.replacing(path, with: path + ".away"))) }
        case .walRemoved: try check(unlink(path + "-wal"))
        case .walReplaced:
            try copy(path + "-wal", path + ".copy")
            try check(rename(path + ".copy", path + "-wal"))
        case .walIndexRemoved: try check(unlink(path + "-shm"))
        case .quarantined: _ = try SharedDatabase.quarantine(at: URL(fileURLWithPath: path), as: "campaign")
        case .erased: try SharedDatabase.erase(at: URL(fileURLWithPath: path), as: "campaign")
        case .mountedOver:
            try copy(path, path + ".copy")
            #if os(Linux)
                return mount(path + ".copy", path, nil, UInt(MS_BIND), nil) == 0
            #else
                return false
            #endif
        }
        return true
    }

    /// Takes back what would keep the folder from being removed.
    func clearUp(_ path: String) {
        #if os(Linux)
            if self == .mountedOver { umount2(path, Int32(MNT_DETACH)) }
        #endif
    }

    /// Whether there is no database file at the path any more.
    var leavesNothing: Bool { self == .removed || self == .moved || self == .setMoved }

    /// Whether every process opens the next database afterwards.
    var isFollowed: Bool { self == .quarantined || self == .erased }

    private func recreate(_ path: String) throws {
        guard FileManager.default.createFile(atPath: path, contents: nil) else { throw CocoaError(.fileWriteUnknown) }
    }

    /// In a process that does not have the database open.
    private func copy(_ from: String, _ to: String) throws {
        try FileManager.default.copyItem(atPath: from, toPath: to)
    }

    private func check(_ code: Int32) throws {
        if code != 0 { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
    }
}
