import Foundation
import RoundtableKernel

/// The rules by which a frozen process is convicted.
///
/// The law `documented` contains what is known about iOS. Its sources are Apple's technical note TN2408, the published source of
/// Apple's SQLite (2020), and what others read in the system's monitor. It has not been compared with a device.
///
/// Every law ignores one lock, which exists on Linux alone: a participant holds an OFD lock on Roundtable's control block to prove
/// to other containers that it is alive.
public struct SuspensionLaw: Codable, Sendable, Equatable {
    /// The rules that are applied.
    public var rules: Set<SuspensionRule>
    /// Folders whose files are not examined, such as the private container of an app. Empty by default.
    ///
    /// Name none for an *extension*: its own container (`…/Containers/Data/PluginKitPlugin/…`) seems not to be exempt, nor its folder of
    /// temporary files. Others read in the system's monitor that nothing is exempt for an XPC service, which an extension is, and
    /// [a kill is reported](https://github.com/groue/GRDB.swift/issues/998).
    public var privateContainers: [String]
    /// Folders of temporary files, which are not examined. Empty by default, because the databases of tests are often temporary.
    public var temporaryFolders: [String]
    /// Whether a file with the extended attribute of ``OpenFile/canSuspendLocked`` is not examined. A database with it also exempts its
    /// `-shm`.
    ///
    /// Others read this in the system's monitor; Apple does not document it. So ``documented`` exempts such files, and ``strict`` does not.
    public var exemptsByAttribute: Bool

    public init(
        rules: Set<SuspensionRule>,
        privateContainers: [String] = [],
        temporaryFolders: [String] = [],
        exemptsByAttribute: Bool = false
    ) {
        self.rules = rules
        self.privateContainers = privateContainers
        self.temporaryFolders = temporaryFolders
        self.exemptsByAttribute = exemptsByAttribute
    }

    /// The rules that iOS is known to apply.
    public static let documented = SuspensionLaw(
        rules: [.exclusive, .rollbackJournal, .walWriter, .walRecovery, .lockedFile],
        exemptsByAttribute: true
    )
    /// All rules: no lock is allowed on any file outside of the exempt folders, whatever its attributes.
    public static let strict = SuspensionLaw(rules: Set(SuspensionRule.allCases))

    /// A lock that breaks a rule.
    public struct Finding: Hashable, Sendable {
        public var rule: SuspensionRule
        public var path: String
        public var lock: FileLock
        /// The library whose file is locked, such as `LMDB`, if it is recognized and the rule is ``SuspensionRule/lockedFile``.
        public var library: String?
    }

    /// The forbidden locks among the files that one process has open. Each lock has at most one finding.
    public func findings(in files: [OpenFile]) -> [Finding] {
        let examined = files.filter { !isExempt($0) }.map(Self.withoutProofsOfLife)
        var seen: Set<FileLockPlace> = []
        var findings: [Finding] = []
        func find(_ rule: SuspensionRule, _ path: String, _ lock: FileLock, of library: String? = nil) {
            guard rules.contains(rule), seen.insert(FileLockPlace(path: path, lock: lock)).inserted else { return }
            findings.append(Finding(rule: rule, path: path, lock: lock, library: library))
        }
        for file in examined where !Self.isExemptByName(file.path) {
            switch file.content {
            case .database(let isWAL):
                for lock in file.locks {
                    if let rule = Self.rule(forDatabase: lock, isWAL: isWAL) { find(rule, file.path, lock) }
                }
                guard isWAL else { continue }
                let walIndex = file.path + SQLiteBytes.walIndexSuffix
                for lock in files.lazy.filter({ $0.path == walIndex }).flatMap(\.locks) {
                    if let rule = Self.rule(forWalIndex: lock) { find(rule, walIndex, lock) }
                }
            case .other, .controlBlock:
                for lock in file.locks {
                    find(.lockedFile, file.path, lock, of: Self.library(of: file, lock, among: files))
                }
            }
        }
        for file in examined {
            for lock in file.locks { find(Self.strictRule(for: lock, of: file.path), file.path, lock) }
        }
        return findings
    }

    /// The library to which a file belongs that is no plain database. Only SQLite locks bytes near 2^30 (``SQLiteBytes``).
    private static func library(of file: OpenFile, _ lock: FileLock, among files: [OpenFile]) -> String? {
        let isThere = { path in files.contains { $0.path == path } }
        if let library = LockingLibrary(ofFileAt: file.path, header: file.header, isThere: isThere) {
            return library.rawValue
        }
        // An empty file is a database that is being created.
        let isOfSQLite =
            !file.header.isEmpty && lock.kind != .flock && SQLiteBytes.pending <= lock.bytes.lowerBound
            && lock.bytes.upperBound <= SQLiteBytes.shared.upperBound
        return isOfSQLite ? SQLiteBytes.library : nil
    }

    private struct FileLockPlace: Hashable {
        let path: String
        let lock: FileLock
    }

    // MARK: Exemptions

    private static func withoutProofsOfLife(_ file: OpenFile) -> OpenFile {
        guard file.content == .controlBlock else { return file }
        var file = file
        file.locks.removeAll { $0.kind == .openFileDescription }
        return file
    }

    static func isExemptByName(_ path: String) -> Bool {
        ["-shm", "-wal", "-journal"].contains { path.hasSuffix($0) }
    }

    private func isExempt(_ file: OpenFile) -> Bool {
        exemptsByAttribute && file.canSuspendLocked || isInExemptFolder(file.path)
    }

    func isInExemptFolder(_ path: String) -> Bool {
        (privateContainers + temporaryFolders).contains { folder in
            let folder = Self.realPath(folder)
            return path.hasPrefix(folder.hasSuffix("/") ? folder : folder + "/")
        }
    }

    /// Resolves symbolic links, because the system lists the paths of open files without them.
    private static func realPath(_ path: String) -> String {
        guard let real = realpath(path, nil) else { return path }
        defer { free(real) }
        return String(cString: real)
    }

    // MARK: Bytes

    /// SQLite's locks are byte ranges. A `flock` is not one of them, so it breaks none of these rules.
    private static func rule(forDatabase lock: FileLock, isWAL: Bool) -> SuspensionRule? {
        guard lock.kind != .flock else { return nil }
        if lock.isExclusive, lock.bytes.overlaps(SQLiteBytes.shared) { return .exclusive }
        let pendingToShared = SQLiteBytes.pending...SQLiteBytes.shared.upperBound
        return !isWAL && lock.bytes.overlaps(pendingToShared) ? .rollbackJournal : nil
    }

    private static func rule(forWalIndex lock: FileLock) -> SuspensionRule? {
        guard lock.kind != .flock else { return nil }
        if lock.bytes.contains(SQLiteBytes.write) { return .walWriter }
        return lock.bytes.contains(SQLiteBytes.recover) ? .walRecovery : nil
    }

    private static func strictRule(for lock: FileLock, of path: String) -> SuspensionRule {
        guard path.hasSuffix(SQLiteBytes.walIndexSuffix), lock.kind != .flock else { return .anyLock }
        if lock.bytes.contains(SQLiteBytes.checkpoint) { return .checkpoint }
        return lock.bytes.overlaps(SQLiteBytes.readMarks) ? .readMark : .anyLock
    }
}
