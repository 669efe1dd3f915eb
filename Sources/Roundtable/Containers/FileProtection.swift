import Foundation
import RoundtableKernel

/// The protection classes of a database's files: when they can be read, on devices that lock.
struct FileProtection: Equatable {
    enum Member: CaseIterable {
        case database, wal, shm, coord, salt

        /// What follows the database's own name.
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

    /// What there is. Files that are not there, or whose class the system does not tell, are missing.
    var present: [Member: ProtectionClass]

    /// What to change, so that all files have the class that was asked for; or that of the database, if none was: the `-wal` file holds
    /// the same secrets.
    ///
    /// The control block holds none, and is mapped: it always stays readable after the first unlocking.
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
    /// Sets the classes of a database's files, right after opening it. Asks and sets by path: opening the files would drop SQLite's locks
    /// (rule G5).
    ///
    /// What fails is left as it is: only devices have protection classes, and a file may go away.
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

#if canImport(Darwin)
    extension ProtectionClass {
        /// Nil for one that is not known here.
        init?(_ type: FileProtectionType) {
            let classes: [String: ProtectionClass] = [
                FileProtectionType.complete.rawValue: .complete,
                FileProtectionType.completeUnlessOpen.rawValue: .unlessOpen,
                FileProtectionType.completeUntilFirstUserAuthentication.rawValue: .untilFirstUnlock,
                FileProtectionType.none.rawValue: .none,
            ]
            guard let value = classes[type.rawValue] else { return nil }
            self = value
        }
    }
#endif
