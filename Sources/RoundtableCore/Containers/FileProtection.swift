import Foundation
import RoundtableKernel

/// The protection classes of a database's files. They say when the files can be read on devices that lock.
struct FileProtection: Equatable {
    enum Member: CaseIterable {
        case database, wal, shm, coord, salt

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
    /// The control block holds no secrets, and is mapped. It always stays readable after the first unlocking.
    func changes(to wanted: ProtectionClass?) -> [Member: ProtectionClass] {
        guard let target = wanted ?? present[.database] else { return [:] }
        var changes: [Member: ProtectionClass] = [:]
        for (member, current) in present {
            let goal = member == .coord ? max(target, .untilFirstUnlock) : target
            if current != goal { changes[member] = goal }
        }
        return changes
    }
}

extension FileProtection {
    /// Sets the classes of a database's files, right after opening it. Gets and sets them by path, because opening the files would drop
    /// SQLite's locks (rule G5).
    ///
    /// Failures are ignored, because only devices have protection classes, and a file may disappear.
    static func apply(_ wanted: ProtectionClass?, to path: String) {
        #if canImport(Darwin) && !os(macOS) && !targetEnvironment(macCatalyst) && !targetEnvironment(simulator)
            var present: [Member: ProtectionClass] = [:]
            for member in Member.allCases {
                present[member] = System.protectionClass(ofFileAt: path + member.ending)
            }
            for (member, target) in FileProtection(present: present).changes(to: wanted) {
                try? System.setProtectionClass(target, ofFileAt: path + member.ending)
            }
        #endif
    }
}

extension SharedDatabase.Options {
    var protectionClass: ProtectionClass? {
        #if canImport(Darwin)
            return fileProtection.flatMap(ProtectionClass.init)
        #else
            return nil
        #endif
    }
}
