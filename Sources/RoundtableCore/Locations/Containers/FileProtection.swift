import Foundation
import RoundtableKernel

/// The protection classes of a database's files. They say when the files can be read on devices that lock.
struct FileProtection: Equatable {
    enum Member: CaseIterable {
        case database, wal, shm, coord, salt

        /// Whether the file is mapped into memory.
        var isMapped: Bool { self == .shm || self == .coord }

        /// The suffix that follows the database's own name.
        var ending: String {
            switch self {
            case .database: ""
            case .wal: "-wal"
            case .shm: "-shm"
            case .coord: ControlBlock.ending
            case .salt: FileSaltStore.suffix
            }
        }
    }

    /// The classes of the present files. Files that do not exist, or whose class the system does not report, are missing.
    var present: [Member: ProtectionClass]

    /// The changes after which all files have the class that was requested, or that of the database if none was requested. The `-wal` file
    /// needs the same class, because it holds the same secrets.
    ///
    /// Files that are mapped stay readable after the first unlocking, because an access to a page that cannot be read ends the process (rule B8).
    /// They hold no rows.
    func changes(to wanted: ProtectionClass?) -> [Member: ProtectionClass] {
        guard let target = wanted ?? present[.database] else { return [:] }
        var changes: [Member: ProtectionClass] = [:]
        for (member, current) in present {
            let goal = member.isMapped ? max(target, .strictestMapped) : target
            if current != goal { changes[member] = goal }
        }
        return changes
    }
}

extension FileProtection {
    /// Sets the classes of a database's files, right after opening it. Gets and sets them by path, because opening the files would drop
    /// SQLite's locks (rule G5).
    ///
    /// Failures are ignored, because a file may disappear.
    static func apply(_ wanted: ProtectionClass?, to path: String) {
        guard let classes = ProtectionClasses.present else { return }
        var present: [Member: ProtectionClass] = [:]
        for member in Member.allCases { present[member] = classes.ofFile(path + member.ending) }
        for (member, target) in FileProtection(present: present).changes(to: wanted) {
            try? classes.set(target, path + member.ending)
        }
    }
}

extension SharedDatabase.Options {
    var protectionClass: ProtectionClass? {
        #if canImport(Darwin)
            return fileProtection.flatMap { ProtectionClass(named: $0.rawValue) }
        #else
            return nil
        #endif
    }
}
