import Foundation
import RoundtableKernel

/// The protection classes of a database's files, by the endings of their names. They say when the files can be read on devices that lock.
enum FileProtection {
    /// The files that are mapped into memory.
    private static let mapped = ["-shm", ControlBlock.ending]
    private static let endings = ["", "-wal", FileSaltStore.suffix] + mapped

    /// The changes after which all files have the class that was requested, or that of the database if none was requested. The `-wal` file
    /// needs the same class, because it holds the same secrets.
    ///
    /// Files that are mapped stay readable after the first unlocking, because an access to a page that cannot be read ends the process (rule B8).
    /// They hold no rows.
    ///
    /// - parameter present: the classes of the files. Those that do not exist, or whose class the system does not report, are missing.
    static func changes(_ present: [String: ProtectionClass], to wanted: ProtectionClass?) -> [String: ProtectionClass]
    {
        guard let target = wanted ?? present[""] else { return [:] }
        var changes: [String: ProtectionClass] = [:]
        for (ending, current) in present {
            let goal = mapped.contains(ending) ? max(target, .strictestMapped) : target
            if current != goal { changes[ending] = goal }
        }
        return changes
    }

    /// Sets the classes of a database's files, right after opening it. Gets and sets them by path, because opening the files would drop
    /// SQLite's locks (rule G5).
    ///
    /// Failures are ignored, because a file may disappear.
    static func apply(_ wanted: ProtectionClass?, to path: String) {
        guard let classes = ProtectionClasses.present else { return }
        var present: [String: ProtectionClass] = [:]
        for ending in endings { present[ending] = classes.ofFile(path + ending) }
        for (ending, target) in changes(present, to: wanted) { try? classes.set(target, path + ending) }
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
