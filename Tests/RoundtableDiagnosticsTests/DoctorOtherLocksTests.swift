import Foundation
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableDiagnostics
@testable import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What the doctor says about the files of other libraries in the container of an App Group.
@Suite struct DoctorOtherLocksTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private static let files = [
        "lmdb/lock.mdb", "lmdb/data.mdb", "mmkv/settings", "mmkv/settings.crc", "default.realm", "default.realm.lock",
        "default.realm.management/access_control.write.mx", "Library/notes.txt", "Library/sums.crc",
    ]

    /// A container with a database and these files beside it.
    private func container(_ path: String, files: [String] = files) throws -> URL {
        let container = folder.url.appendingPathComponent(path)
        for file in files + ["Database/any"] {
            let url = container.appendingPathComponent(file)
            let parent = url.deletingLastPathComponent()
            try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
            try Data("text".utf8).write(to: url)
        }
        let url = container.appendingPathComponent("Database/a.db")
        try SharedDatabase.open(at: url, schema: .unmanaged, as: "app").close()
        return url
    }

    private func findings(_ url: URL) throws -> [DatabaseDiagnosis.Finding] {
        try DatabaseDiagnosis(ofDatabaseAt: url).findings.filter { $0.topic == .otherLocks }
    }

    /// Each library has one finding, with its first file. Where nothing is killed for a lock, there is none.
    @Test func libraries() throws {
        let found = try findings(container("Containers/Shared/AppGroup/1"))
        #expect(found.allSatisfy { $0.severity == .notice })
        let names = found.map { $0.location.split(separator: "/").last ?? "" }
        #expect(names == ["data.mdb", "settings.crc", "default.realm"])
        let texts = ["2 files of LMDB are in", "1 file of MMKV is in", "3 files of Realm are in"]
        for (finding, text) in zip(found, texts) { #expect(finding.message.hasPrefix(text), "\(finding.message)") }
        #expect(found.first?.advice.contains("mdb_env_close") == true)
        #expect(try findings(container("Library/Group Containers/group.com.example")).isEmpty)
        #expect(try findings(container("Containers/Data/Application/1")).isEmpty)
    }

    @Test func nothing() throws {
        let url = try container("Containers/Shared/AppGroup/1", files: ["Library/notes.txt", "Library/sums.crc"])
        #expect(try findings(url).isEmpty)
        #expect(try DatabaseDiagnosis(ofDatabaseAt: url).unknowns.isEmpty)
    }

    /// A large container is looked at in part, and the diagnosis says so.
    @Test func manyFiles() throws {
        let path = try container("Containers/Shared/AppGroup/1").path
        let cut = try #require(GroupContainer(ofDatabaseAt: path, most: 3))
        #expect(cut.isCut && cut.files.count == 3)
        var diagnosis = DatabaseDiagnosis(path: path, findings: [], unknowns: [])
        diagnosis.examineOtherLocks(cut)
        #expect(diagnosis.unknowns.first?.hasPrefix("Locks of other libraries: ") == true)
        #expect(try #require(GroupContainer(ofDatabaseAt: path)).isCut == false)
    }

    @Test(.enabled(if: geteuid() != 0, "the superuser reads each folder")) func unreadableFolder() throws {
        let url = try container("Containers/Shared/AppGroup/1", files: ["shut/default.realm"])
        let shut = url.deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("shut").path
        try #require(chmod(shut, 0) == 0)
        defer { chmod(shut, 0o700) }
        let diagnosis = try DatabaseDiagnosis(ofDatabaseAt: url)
        #expect(diagnosis.findings.allSatisfy { $0.topic != .otherLocks })
        #expect(diagnosis.unknowns == ["Locks of other libraries: 1 folder cannot be read, such as \(shut)."])
    }

    #if os(Linux)
        /// `F_OFD_GETLK` of `fcntl.h`, which Swift does not import.
        private static let getOFDLock: Int32 = 36

        /// The files are recognized without being opened: closing one would drop the locks of this process on it.
        @Test func locksStay() throws {
            let url = try container("Containers/Shared/AppGroup/1")
            let path = url.deletingLastPathComponent().deletingLastPathComponent().path + "/lmdb/lock.mdb"
            let descriptors = [open(path, O_RDWR), open(path, O_RDWR)]
            defer { descriptors.forEach { close($0) } }
            var lock = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 0, l_len: 1, l_pid: 0)
            try #require(fcntl(descriptors[0], F_SETLK, &lock) == 0)
            let found = try findings(url)
            #expect(found.count == 3)
            // Locks of an open file description and of the process exclude each other, even in one process.
            try #require(fcntl(descriptors[1], Self.getOFDLock, &lock) == 0)
            #expect(lock.l_type == Int16(F_WRLCK) && lock.l_pid == getpid())
        }
    #endif
}
