import Foundation
import RoundtableTestKit
import Testing

/// The rule, row by row. The numbers are written out, and not taken from the code under test.
@Suite struct SuspensionLawTests {
    struct Case: CustomTestStringConvertible {
        let name: String
        var file = Self.wal
        var path = "/group/app.sqlite"
        /// On the file.
        var locks: [FileLock] = []
        /// On its `-shm`.
        var walIndexLocks: [FileLock] = []
        var documented: Set<SuspensionRule> = []
        var strict: Set<SuspensionRule>

        var testDescription: String { name }

        static let wal = header(writeVersion: 2)
        static let rollback = header(writeVersion: 1)
        /// As an encrypted database looks.
        static let noise = (0..<100).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) }

        static func header(writeVersion: UInt8) -> [UInt8] {
            var bytes = Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0, count: 84)
            bytes[16] = 0x10
            bytes[18] = writeVersion
            bytes[19] = writeVersion
            return bytes
        }
    }

    private static func shared(_ bytes: ClosedRange<UInt64>) -> FileLock {
        FileLock(.posix, isExclusive: false, bytes: bytes)
    }

    private static func exclusive(_ bytes: ClosedRange<UInt64>, _ kind: FileLock.Kind = .posix) -> FileLock {
        FileLock(kind, isExclusive: true, bytes: bytes)
    }

    private static let pending: UInt64 = 1_073_741_824
    private static let sharedRange: ClosedRange<UInt64> = 1_073_741_826...1_073_742_335
    private static let everything: ClosedRange<UInt64> = 0...UInt64.max

    static let cases: [Case] = [
        // WAL, as FACTS of the locks have them.
        Case(name: "WAL, no lock", strict: []),
        Case(name: "WAL, idle", locks: [shared(sharedRange)], walIndexLocks: [shared(128...128)], strict: [.anyLock]),
        Case(
            name: "WAL, reading",
            locks: [shared(sharedRange)],
            walIndexLocks: [shared(128...128), shared(124...124)],
            strict: [.anyLock, .readMark]
        ),
        Case(
            name: "WAL, writing",
            locks: [shared(sharedRange)],
            walIndexLocks: [shared(128...128), exclusive(120...120)],
            documented: [.walWriter],
            strict: [.walWriter, .anyLock]
        ),
        Case(
            name: "WAL, passive checkpoint",
            locks: [shared(sharedRange)],
            walIndexLocks: [exclusive(121...121), exclusive(123...123)],
            strict: [.anyLock, .checkpoint, .readMark]
        ),
        Case(
            name: "WAL, full checkpoint",
            walIndexLocks: [exclusive(120...121)],
            documented: [.walWriter],
            strict: [.walWriter]
        ),
        Case(
            name: "WAL, recovering",
            walIndexLocks: [exclusive(122...122)],
            documented: [.walRecovery],
            strict: [.walRecovery]
        ),
        Case(
            name: "WAL, all locks at once",
            walIndexLocks: [exclusive(120...127)],
            documented: [.walWriter],
            strict: [.walWriter]
        ),
        Case(name: "WAL, byte 119", walIndexLocks: [exclusive(119...119)], strict: [.anyLock]),
        Case(name: "WAL, bytes 121", walIndexLocks: [exclusive(121...121)], strict: [.checkpoint]),
        Case(name: "WAL, bytes 123 to 127", walIndexLocks: [exclusive(123...127)], strict: [.readMark]),
        Case(name: "WAL, deadman's switch", walIndexLocks: [exclusive(128...128)], strict: [.anyLock]),
        Case(
            name: "WAL, WRITE by an OFD lock",
            walIndexLocks: [exclusive(120...120, .openFileDescription)],
            documented: [.walWriter],
            strict: [.walWriter]
        ),
        Case(name: "WAL, flock on -shm", walIndexLocks: [exclusive(everything, .flock)], strict: [.anyLock]),
        Case(
            name: "WAL, EXCLUSIVE",
            locks: [exclusive(sharedRange)],
            documented: [.exclusive],
            strict: [.exclusive]
        ),
        Case(
            name: "WAL, first byte of SHARED, exclusively",
            locks: [exclusive(1_073_741_826...1_073_741_826)],
            documented: [.exclusive],
            strict: [.exclusive]
        ),
        Case(
            name: "WAL, last byte of SHARED, exclusively",
            locks: [exclusive(1_073_742_335...1_073_742_335)],
            documented: [.exclusive],
            strict: [.exclusive]
        ),
        Case(
            name: "WAL, beyond SHARED",
            locks: [exclusive(1_073_742_336...1_073_742_336)],
            strict: [.anyLock]
        ),
        Case(name: "WAL, RESERVED", locks: [exclusive((pending + 1)...(pending + 1))], strict: [.anyLock]),
        Case(name: "WAL, PENDING", locks: [exclusive(pending...pending)], strict: [.anyLock]),
        Case(name: "WAL, flock", locks: [exclusive(everything, .flock)], strict: [.anyLock]),
        Case(
            name: "WAL, all of the file",
            locks: [exclusive(everything)],
            documented: [.exclusive],
            strict: [.exclusive]
        ),

        Case(
            name: "WAL, all of the file, shared",
            locks: [shared(everything)],
            strict: [.anyLock]
        ),

        // Not WAL.
        Case(
            name: "rollback, flock",
            file: Case.rollback,
            locks: [exclusive(everything, .flock)],
            strict: [.anyLock]
        ),
        Case(
            name: "rollback, all of the file, shared",
            file: Case.rollback,
            locks: [shared(everything)],
            documented: [.rollbackJournal],
            strict: [.rollbackJournal]
        ),
        Case(name: "rollback, no lock", file: Case.rollback, strict: []),
        Case(
            name: "rollback, reading",
            file: Case.rollback,
            locks: [shared(sharedRange)],
            documented: [.rollbackJournal],
            strict: [.rollbackJournal]
        ),
        Case(
            name: "rollback, RESERVED",
            file: Case.rollback,
            locks: [shared(sharedRange), exclusive((pending + 1)...(pending + 1))],
            documented: [.rollbackJournal],
            strict: [.rollbackJournal]
        ),
        Case(
            name: "rollback, PENDING alone",
            file: Case.rollback,
            locks: [shared(pending...pending)],
            documented: [.rollbackJournal],
            strict: [.rollbackJournal]
        ),
        Case(
            name: "rollback, committing",
            file: Case.rollback,
            locks: [exclusive(pending...1_073_742_335)],
            documented: [.exclusive],
            strict: [.exclusive]
        ),
        Case(
            name: "rollback, before PENDING and beyond SHARED",
            file: Case.rollback,
            locks: [exclusive((pending - 1)...(pending - 1)), exclusive(1_073_742_336...1_073_742_400)],
            strict: [.anyLock]
        ),
        Case(
            name: "rollback, a -shm of old",
            file: Case.rollback,
            walIndexLocks: [exclusive(120...120)],
            strict: [.anyLock]
        ),
        Case(
            name: "byte 18 is neither 1 nor 2",
            file: Case.header(writeVersion: 3),
            locks: [shared(sharedRange)],
            documented: [.rollbackJournal],
            strict: [.rollbackJournal]
        ),

        // Other files.
        Case(name: "encrypted, no lock", file: Case.noise, strict: []),
        Case(
            name: "encrypted, idle",
            file: Case.noise,
            locks: [shared(sharedRange)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),
        Case(
            name: "other, shared fcntl lock on byte 0",
            file: Array("hello".utf8),
            locks: [shared(0...0)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),
        Case(
            name: "other, shared flock",
            file: [],
            locks: [FileLock(.flock, isExclusive: false, bytes: everything)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),
        Case(
            name: "other, OFD lock",
            file: [],
            locks: [exclusive(5...9, .openFileDescription)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),
        Case(
            name: "a magic of 15 bytes",
            file: Array("SQLite format 3".utf8) + [UInt8](repeating: 1, count: 85),
            locks: [shared(sharedRange)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),
        Case(
            name: "a header that ends before byte 18",
            file: Array(Case.wal.prefix(18)),
            locks: [shared(sharedRange)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),

        Case(
            name: "other, all of the file, shared",
            file: [],
            locks: [shared(everything)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),

        // Names.
        Case(name: "named -wal", file: [], path: "/group/x-wal", locks: [exclusive(everything)], strict: [.anyLock]),
        Case(name: "named -shm", file: [], path: "/group/x-shm", locks: [exclusive(0...9)], strict: [.anyLock]),
        Case(name: "named -journal", file: [], path: "/group/x-journal", locks: [exclusive(0...9)], strict: [.anyLock]),
        Case(
            name: "named -lock",
            file: [],
            path: "/group/app.sqlite-lock",
            locks: [exclusive(0...9)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),
        Case(
            name: "-shm within the name",
            file: [],
            path: "/group/x-shm.lock",
            locks: [exclusive(0...9)],
            documented: [.lockedFile],
            strict: [.lockedFile]
        ),
    ]

    @Test(arguments: cases) func rule(_ test: Case) {
        let files = [
            OpenFile(path: test.path, locks: test.locks, header: test.file),
            OpenFile(path: test.path + "-shm", locks: test.walIndexLocks),
        ]
        #expect(Set(SuspensionLaw.documented.findings(in: files).map(\.rule)) == test.documented)
        let strict = SuspensionLaw.strict.findings(in: files)
        #expect(Set(strict.map(\.rule)) == test.strict)
        // In strict mode each lock has one finding.
        #expect(strict.count == test.locks.count + test.walIndexLocks.count)
    }

    /// The files of another database, and a `-shm` without its database, convict no process.
    @Test func walIndexBelongsToItsDatabase() {
        let writing = [Self.exclusive(120...120)]
        let files = [
            OpenFile(path: "/group/a.sqlite", header: Case.wal), OpenFile(path: "/group/b.sqlite-shm", locks: writing),
        ]
        #expect(SuspensionLaw.documented.findings(in: files).isEmpty)
    }

    /// The lock of a participant on the control block is no crime; any other lock there is, and so is such a lock anywhere else.
    @Test(arguments: [SuspensionLaw.documented, .strict]) func proofsOfLife(law: SuspensionLaw) {
        let block = Array("RNDTABLE".utf8) + [UInt8](repeating: 0, count: 92)
        let proof = FileLock(.openFileDescription, isExclusive: true, bytes: 4096...4096)
        let locks = [proof, FileLock(.posix, isExclusive: true, bytes: 4096...4096), Self.exclusive(0...0, .flock)]
        #expect(law.findings(in: [OpenFile(path: "/group/app-coord4", locks: [proof], header: block)]).isEmpty)
        let others = law.findings(in: [OpenFile(path: "/group/app-coord4", locks: locks, header: block)])
        #expect(Set(others.map(\.lock.kind)) == [.posix, .flock] && others.allSatisfy { $0.rule == .lockedFile })
        #expect(law.findings(in: [OpenFile(path: "/group/app-coord4", locks: [proof])]).map(\.rule) == [.lockedFile])
    }

    @Test func exemptFolders() {
        let lock = Self.exclusive(120...120)
        let files = ["/nowhere/private/a", "/nowhere/tmp/b", "/nowhere/private-not/c"].flatMap { folder in
            [
                OpenFile(path: "\(folder)/app.sqlite", header: Case.wal),
                OpenFile(path: "\(folder)/app.sqlite-shm", locks: [lock]),
            ]
        }
        for law in [SuspensionLaw.documented, .strict] {
            var law = law
            law.privateContainers = ["/nowhere/private"]
            law.temporaryFolders = ["/nowhere/tmp/"]
            #expect(law.findings(in: files).map(\.path) == ["/nowhere/private-not/c/app.sqlite-shm"])
        }
    }

    /// A file that the system may pass over because of its attribute: not examined by the documented law, examined by the strict one. The
    /// attribute of a database counts for its `-shm`, and that of a `-shm` alone does not.
    @Test func exemptByAttribute() {
        let lock = Self.exclusive(Self.everything, .flock)
        let other = OpenFile(path: "/group/its.lock", locks: [lock], canSuspendLocked: true)
        #expect(SuspensionLaw.documented.findings(in: [other]).isEmpty)
        #expect(SuspensionLaw.strict.findings(in: [other]).map(\.rule) == [.lockedFile])
        #expect(SuspensionLaw(rules: [.lockedFile]).findings(in: [other]).map(\.rule) == [.lockedFile])
        for isMarked in [true, false] {
            let files = [
                OpenFile(path: "/group/a", header: Case.wal, canSuspendLocked: isMarked),
                OpenFile(path: "/group/a-shm", locks: [Self.exclusive(120...120)], canSuspendLocked: !isMarked),
            ]
            #expect(SuspensionLaw.documented.findings(in: files).map(\.rule) == (isMarked ? [] : [.walWriter]))
            #expect(SuspensionLaw.strict.findings(in: files).map(\.rule) == [.walWriter])
        }
    }

    /// An extension's own container is not exempt because that of its app is.
    @Test func containerOfAnExtension() {
        let containers = "/var/mobile/Containers/Data"
        let files = ["Application/1", "PluginKitPlugin/2"].map { folder in
            OpenFile(path: "\(containers)/\(folder)/its.lock", locks: [Self.shared(0...0)])
        }
        var law = SuspensionLaw.documented
        law.privateContainers = ["\(containers)/Application/1"]
        #expect(law.findings(in: files).map(\.path) == ["\(containers)/PluginKitPlugin/2/its.lock"])
    }

    /// A finding names the library whose file is locked. Only a file that is no plain database is another library's.
    @Test func libraries() {
        let whole = Self.exclusive(Self.everything, .flock)
        func library(_ path: String, _ lock: FileLock, _ header: [UInt8] = [], beside others: String...) -> String? {
            let file = OpenFile(path: path, locks: [lock], header: header)
            return SuspensionLaw.documented.findings(in: [file] + others.map { OpenFile(path: $0) }).first?.library
        }
        #expect(library("/group/lock.mdb", Self.shared(0...0)) == "LMDB")
        #expect(library("/group/notes-lock", Self.shared(0...0), [0xDE, 0xC0, 0xEF, 0xBE]) == "LMDB")
        #expect(library("/group/default.realm.lock", whole) == "Realm")
        #expect(library("/group/settings.crc", whole, beside: "/group/settings") == "MMKV")
        #expect(library("/group/settings.crc", whole) == nil)
        #expect(library("/group/secret.db", Self.shared(Self.sharedRange), Case.noise) == "SQLite")
        #expect(library("/group/secret.db", Self.shared(Self.pending...1_073_742_335), Case.noise) == "SQLite")
        #expect(library("/group/secret.db", Self.shared((Self.pending - 1)...1_073_742_335), Case.noise) == nil)
        #expect(library("/group/secret.db", Self.shared(Self.pending...1_073_742_336), Case.noise) == nil)
        #expect(library("/group/secret.db", whole, Case.noise) == nil)
        // It is being created.
        #expect(library("/group/new.db", Self.shared(Self.pending...1_073_742_335)) == nil)
        #expect(library("/group/data.mdb", Self.shared(Self.sharedRange), Case.rollback) == nil)
    }

    /// A law of one's own: read marks are forbidden, what an idle connection keeps is not.
    @Test func chosenRules() {
        var law = SuspensionLaw.documented
        law.rules.insert(.readMark)
        let files = [
            OpenFile(path: "/group/a", locks: [Self.shared(Self.sharedRange)], header: Case.wal),
            OpenFile(path: "/group/a-shm", locks: [Self.shared(124...124), Self.shared(128...128)]),
        ]
        #expect(law.findings(in: files).map(\.rule) == [.readMark])
    }

    @Test func wording() {
        let lock = Self.exclusive(120...120)
        let conviction = Conviction(pid: 42, program: "sync", rule: .walWriter, path: "/g/a-shm", lock: lock)
        #expect(
            conviction.description
                == "'sync' (pid 42) holds an exclusive fcntl lock on byte 120 (WRITE) of /g/a-shm: a write transaction is open (walWriter)"
        )
    }

    @Test(arguments: [
        ("LMDB", "bytes 1073741826-1073742335 of /g/a, a file of LMDB: a file that is no plain"),
        (
            "SQLite",
            "bytes 1073741826-1073742335 (SHARED) of /g/a, an encrypted database of SQLite: a file that is no plain"
        ),
    ])
    func wording(ofLibrary library: String, _ text: String) {
        let lock = Self.shared(Self.sharedRange)
        let conviction = Conviction(
            pid: 42,
            program: "sync",
            rule: .lockedFile,
            path: "/g/a",
            lock: lock,
            library: library
        )
        #expect(conviction.description.contains(text), "\(conviction)")
    }

    @Test(arguments: [
        ("1: POSIX  ADVISORY  WRITE 2775 fe:00:16220171 120 120", exclusive(120...120)),
        ("2: POSIX  ADVISORY  READ 29309 fe:00:16360016 1073741826 1073742335", shared(sharedRange)),
        ("1: FLOCK  ADVISORY  WRITE 12869 fe:00:16220171 0 EOF", exclusive(everything, .flock)),
        ("3: OFDLCK ADVISORY  WRITE -1 00:1c:31 7 9", exclusive(7...9, .openFileDescription)),
        ("3: -> POSIX  ADVISORY  WRITE 7 00:1c:31 7 9", nil),
        ("4: LEASE  ACTIVE    WRITE 7 00:1c:31 0 EOF", nil),
        ("", nil), ("1: POSIX ADVISORY WRITE 1 1:1:1 9 7", nil),
    ])
    func systemLines(_ line: String, _ lock: FileLock?) {
        #expect(FileLock(systemLine: line) == lock)
    }
}
