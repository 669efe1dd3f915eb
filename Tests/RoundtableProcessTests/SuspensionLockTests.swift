#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// Real programs, real locks, what the police sees of them.
        @Suite(.serialized, .enabled(if: Program.python != nil, "python3 is not installed"))
        struct SuspensionLocks {
            struct Case: CustomTestStringConvertible {
                let name: String
                let lines: [String]
                var documented: Set<SuspensionRule> = []
                var strict: Set<SuspensionRule>
                var testDescription: String { name }
            }

            private static let open = "import fcntl, sqlite3, os, struct; f = open('thing.lock', 'w+')"
            private static func ofd(_ type: String) -> String {
                // struct flock: l_type, l_whence, l_start, l_len, l_pid; F_OFD_SETLK = 37.
                "fcntl.fcntl(f, 37, struct.pack('hhxxxxqqixxxx', fcntl.\(type), 0, 10, 5, 0))"
            }

            private static let connectWAL = [
                "import sqlite3", "c = sqlite3.connect('app.sqlite', isolation_level=None)",
                "c.execute('PRAGMA journal_mode = WAL')", "c.execute('CREATE TABLE IF NOT EXISTS t (x)')",
                "c.execute('INSERT INTO t VALUES (1)')",
            ]
            private static let connectRollback = [
                "import sqlite3", "c = sqlite3.connect('old.sqlite', isolation_level=None)",
                "c.execute('CREATE TABLE IF NOT EXISTS t (x)')", "c.execute('INSERT INTO t VALUES (1)')",
            ]

            static let cases: [Case] = [
                Case(name: "no lock", lines: [open], strict: []),
                Case(
                    name: "fcntl, exclusive",
                    lines: [open, "fcntl.lockf(f, fcntl.LOCK_EX)"],
                    documented: [.lockedFile],
                    strict: [.lockedFile]
                ),
                Case(
                    name: "fcntl, shared, one byte",
                    lines: [open, "fcntl.lockf(f, fcntl.LOCK_SH, 1, 7)"],
                    documented: [.lockedFile],
                    strict: [.lockedFile]
                ),
                Case(
                    name: "fcntl, dropped by closing another descriptor",
                    lines: [open, "fcntl.lockf(f, fcntl.LOCK_EX)", "open('thing.lock').close()"],
                    strict: []
                ),
                Case(
                    name: "flock, exclusive",
                    lines: [open, "fcntl.flock(f, fcntl.LOCK_EX)"],
                    documented: [.lockedFile],
                    strict: [.lockedFile]
                ),
                Case(
                    name: "flock, shared",
                    lines: [open, "fcntl.flock(f, fcntl.LOCK_SH)"],
                    documented: [.lockedFile],
                    strict: [.lockedFile]
                ),
                Case(
                    name: "OFD, exclusive",
                    lines: [open, ofd("F_WRLCK")],
                    documented: [.lockedFile],
                    strict: [.lockedFile]
                ),
                Case(
                    name: "OFD, shared",
                    lines: [open, ofd("F_RDLCK")],
                    documented: [.lockedFile],
                    strict: [.lockedFile]
                ),
                Case(
                    name: "a file without a name any more",
                    lines: [open, "fcntl.flock(f, fcntl.LOCK_EX)", "os.unlink('thing.lock')"],
                    documented: [.lockedFile],
                    strict: [.lockedFile]
                ),
                Case(
                    name: "an exempt name",
                    lines: ["import fcntl", "f = open('thing-journal', 'w')", "fcntl.flock(f, fcntl.LOCK_EX)"],
                    strict: [.anyLock]
                ),
                Case(
                    name: "taken by another thread",
                    lines: [
                        open, "import threading",
                        "t = threading.Thread(target=lambda: fcntl.lockf(f, fcntl.LOCK_EX)); t.start(); t.join()",
                    ],
                    documented: [.lockedFile],
                    strict: [.lockedFile]
                ),
                Case(
                    name: "WAL, flock of the database",
                    lines: connectWAL + ["import fcntl; d = open('app.sqlite'); fcntl.flock(d, fcntl.LOCK_EX)"],
                    strict: [.anyLock]
                ),
                Case(name: "WAL, idle", lines: connectWAL, strict: [.anyLock]),
                Case(
                    name: "WAL, reading",
                    lines: connectWAL + ["c.execute('BEGIN')", "c.execute('SELECT * FROM t').fetchall()"],
                    strict: [.anyLock, .readMark]
                ),
                Case(
                    name: "WAL, writing",
                    lines: connectWAL + ["c.execute('BEGIN IMMEDIATE')"],
                    documented: [.walWriter],
                    strict: [.walWriter, .anyLock, .readMark]
                ),
                Case(
                    name: "WAL, rolled back",
                    lines: connectWAL + ["c.execute('BEGIN IMMEDIATE')", "c.execute('ROLLBACK')"],
                    strict: [.anyLock]
                ),
                Case(
                    name: "WAL, in EXCLUSIVE locking mode",
                    lines: connectWAL + [
                        "c.execute('PRAGMA locking_mode = EXCLUSIVE').fetchall()",
                        "c.execute('INSERT INTO t VALUES (2)')",
                    ],
                    documented: [.exclusive],
                    strict: [.exclusive, .anyLock]
                ),
                Case(name: "rollback, idle", lines: connectRollback, strict: []),
                Case(
                    name: "rollback, reading",
                    lines: connectRollback + ["c.execute('BEGIN')", "c.execute('SELECT * FROM t').fetchall()"],
                    documented: [.rollbackJournal],
                    strict: [.rollbackJournal]
                ),
                Case(
                    name: "rollback, writing",
                    lines: connectRollback + ["c.execute('BEGIN IMMEDIATE')", "c.execute('INSERT INTO t VALUES (3)')"],
                    documented: [.rollbackJournal],
                    strict: [.rollbackJournal]
                ),
                Case(
                    name: "rollback, exclusive",
                    lines: connectRollback + ["c.execute('BEGIN EXCLUSIVE')"],
                    // One lock: the system joins ranges that touch.
                    documented: [.exclusive],
                    strict: [.exclusive]
                ),
            ]

            @Test(.timeLimit(.minutes(1)), arguments: cases) func realProgram(_ test: Case) throws {
                try PeerFleet.run { fleet in
                    let program = try PythonProgram(fleet)
                    try program.run("import os; os.chdir('\(fleet.databaseFolder.path)')")
                    for line in test.lines { try program.run(line) }
                    try withPolice(.reporting()) { police in
                        let verdict = try police.freeze(program.pid)
                        #expect(Set(verdict.convictions.map(\.rule)) == test.documented, "\(verdict)")
                        #expect((verdict.outcome == .convicted) == !test.documented.isEmpty)
                        police.terms.law = .strict
                        let strict = try police.freeze(program.pid)
                        #expect(Set(strict.convictions.map(\.rule)) == test.strict, "\(strict)")
                        police.terms.law.privateContainers = [fleet.databaseFolder.path]
                        let exempt = try police.freeze(program.pid)
                        #expect(exempt.outcome == .released, "\(exempt)")
                    }
                    // It was let go.
                    try program.run("pass")
                }
            }

            /// The attribute is read of the file that is open, whatever its name is now. One byte that is not zero counts.
            ///
            /// The documented law exempts such a file, the strict one does not.
            @Test(.timeLimit(.minutes(1)), arguments: ["1", "0", "11", nil])
            func attribute(value: String?) throws {
                try PeerFleet.run { fleet in
                    let program = try PythonProgram(fleet)
                    try program.run("import os; os.chdir('\(fleet.databaseFolder.path)')")
                    try program.run(Self.open)
                    try program.run("fcntl.flock(f, fcntl.LOCK_EX)")
                    let name = "user.com.apple.runningboard.can-suspend-locked"
                    if let value {
                        let bytes = value.map { "\\x0\($0)" }.joined()
                        try program.run("os.setxattr('thing.lock', '\(name)', b'\(bytes)'); os.unlink('thing.lock')")
                    }
                    try withPolice(.reporting()) { police in
                        let documented = try police.freeze(program.pid)
                        #expect(documented.convictions.count == (value == "1" ? 0 : 1), "\(documented)")
                        police.terms.law = .strict
                        let strict = try police.freeze(program.pid)
                        #expect(strict.convictions.count == 1, "\(strict)")
                    }
                }
            }

            /// A file is opened if its locks are to be judged, and no other: opening one that has a lease would end its holder. A database that has
            /// lost one of its names is judged by the other.
            @Test(.timeLimit(.minutes(1))) func filesThatAreNotLocked() throws {
                try PeerFleet.run { fleet in
                    let program = try PythonProgram(fleet)
                    try program.run("import fcntl, os; os.chdir('\(fleet.databaseFolder.path)')")
                    try program.run("f = open('leased', 'w'); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)")
                    for line in Self.connectWAL { try program.run(line) }
                    try withPolice(.reporting()) { police in
                        #expect(try police.freeze(program.pid).convictions.isEmpty)
                        try program.run("n = 'app.sqlite'; os.link(n, 'other'); os.unlink(n); os.rename('other', n)")
                        try program.run("c.execute('BEGIN IMMEDIATE')")
                        #expect(try police.freeze(program.pid).convictions.map(\.rule) == [.walWriter])
                    }
                }
            }

            private static let libraries = [
                (
                    "LMDB",
                    "f = open('notes-lock', 'wb+'); f.write(b'\\xde\\xc0\\xef\\xbe'); f.flush(); fcntl.lockf(f, fcntl.LOCK_SH, 1)"
                ),
                ("MMKV", "f = open('settings.crc', 'w'); g = open('settings', 'w'); fcntl.flock(f, fcntl.LOCK_EX)"),
                ("Realm", "f = open('default.realm.lock', 'w'); fcntl.flock(f, fcntl.LOCK_SH)"),
            ]

            /// The lock files of other libraries, as these lock them, are named in the verdict.
            @Test(.timeLimit(.minutes(1)), arguments: libraries)
            func library(_ library: String, _ lines: String) throws {
                try PeerFleet.run { fleet in
                    let program = try PythonProgram(fleet)
                    try program.run("import fcntl, os; os.chdir('\(fleet.databaseFolder.path)'); \(lines)")
                    try withPolice(.reporting()) { police in
                        let convictions = try police.freeze(program.pid).convictions
                        #expect(convictions.map(\.library) == [library] && convictions.map(\.rule) == [.lockedFile])
                        #expect(convictions.first?.description.contains(", a file of \(library): ") == true)
                    }
                }
            }

            /// A FULL checkpoint that waits for a reader holds WRITE and CKPT, which are one lock to the system.
            @Test(.timeLimit(.minutes(1))) func checkpoint() throws {
                try PeerFleet.run { fleet in
                    let program = try PythonProgram(fleet)
                    try program.run("import os; os.chdir('\(fleet.databaseFolder.path)')")
                    for line in Self.connectWAL { try program.run(line) }
                    // A second program keeps a read mark that is older than the last commit.
                    let reader = try PythonProgram(fleet)
                    try reader.run("import os; os.chdir('\(fleet.databaseFolder.path)')")
                    for line in Self.connectWAL.prefix(2) { try reader.run(line) }
                    try reader.run("c.execute('BEGIN'); c.execute('SELECT * FROM t').fetchall()")
                    try program.run("c.execute('INSERT INTO t VALUES (9)'); c.execute('PRAGMA busy_timeout = 60000')")
                    try program.start("c.execute('PRAGMA wal_checkpoint(FULL)').fetchall()")
                    try withPolice(.reporting()) { police in
                        try eventually("the checkpoint holds its lock") {
                            try police.freeze(program.pid).outcome == .convicted
                        }
                        let verdict = try police.freeze(program.pid)
                        #expect(verdict.convictions.map(\.rule) == [.walWriter])
                        let crime = "an exclusive fcntl lock on bytes 120-121 (WRITE, CKPT) of /"
                        #expect(verdict.description.contains(crime))
                        police.terms.law.rules = [.checkpoint]
                        let checkpoint = try police.freeze(program.pid)
                        #expect(checkpoint.convictions.map(\.rule) == [.checkpoint])
                    }
                    try reader.run("c.execute('COMMIT')")
                    #expect(try program.answer() == "ok")
                }
            }

            /// A forked child shares its parent's `flock`, and not its `fcntl` lock; both are looked at.
            @Test(.timeLimit(.minutes(1)), arguments: [FileLock.Kind.flock, .posix])
            func forkedChild(_ kind: FileLock.Kind) throws {
                try PeerFleet.run { fleet in
                    let program = try PythonProgram(fleet)
                    try program.run("import os, fcntl, time; f = open('\(fleet.database.path).lock', 'w')")
                    try program.run("fcntl.\(kind == .flock ? "flock" : "lockf")(f, fcntl.LOCK_EX)")
                    try program.run("child = os.fork(); child or time.sleep(1000); answer = str(child)")
                    let child = try #require(Int32(try program.run("answer = str(child)")))
                    defer { kill(child, SIGKILL) }
                    try withPolice(.reporting()) { police in
                        let verdict = try police.freeze(program.pid)
                        #expect(verdict.processes == 2)
                        let convicted = Set(verdict.convictions.map(\.pid))
                        #expect(convicted == (kind == .flock ? [program.pid, child] : [program.pid]))
                    }
                    // The parent gone, its child has the lock.
                    try program.process.killAndReap()
                    try withPolice(.reporting()) { police in
                        let verdict = try police.freeze(child)
                        #expect(verdict.outcome == (kind == .flock ? .convicted : .released))
                    }
                }
            }

            /// The police is called by a process that has the database open, too, and inside a transaction: its locks stay. To read
            /// the header of the file in any ordinary way would drop them.
            @Test(.timeLimit(.minutes(1))) func ownLocksStay() throws {
                try PeerFleet.run { fleet in
                    let path = fleet.database.path
                    let file = try #require(fopen(path, "w+"))
                    defer { fclose(file) }
                    fputs("no database", file)
                    fflush(file)
                    var lock = flock(l_type: Int16(F_WRLCK), l_whence: 0, l_start: 3, l_len: 1, l_pid: 0)
                    #expect(fcntl(fileno(file), F_SETLK, &lock) == 0)

                    let program = try PythonProgram(fleet)
                    try program.run("import fcntl; f = open('\(path)', 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 100)")
                    try withPolice(.reporting()) { police in
                        let verdict = try police.freeze(program.pid)
                        #expect(verdict.outcome == .convicted)
                    }
                    // Asked from outside: is byte 3 still locked?
                    let question = "import struct; q = struct.pack('hhxxxxqqixxxx', fcntl.F_WRLCK, 0, 3, 1, 0)"
                    try program.run(question)
                    let holder = "answer = str(struct.unpack('hhxxxxqqixxxx', fcntl.fcntl(f, fcntl.F_GETLK, q))[4])"
                    #expect(try program.run(holder) == "\(getpid())")
                }
            }

            /// What `/proc/PID/fdinfo` says is what `/proc/locks` says, for the kinds that it lists by process.
            @Test(.timeLimit(.minutes(1))) func agreesWithTheListOfAllLocks() throws {
                try PeerFleet.run { fleet in
                    let program = try PythonProgram(fleet)
                    try program.run("import os; os.chdir('\(fleet.databaseFolder.path)')")
                    for line in Self.connectWAL + ["c.execute('BEGIN IMMEDIATE')"] { try program.run(line) }
                    try withPolice(.reporting(.strict)) { police in
                        let found = try police.freeze(program.pid).convictions.map(\.lock)
                        let listed = try String(contentsOfFile: "/proc/locks", encoding: .utf8).split(separator: "\n")
                            .filter { $0.split(separator: " ").dropFirst(4).first == "\(program.pid)" }
                            .compactMap { FileLock(systemLine: $0) }
                        #expect(found.count >= 4)
                        #expect(Set(found) == Set(listed) && found.count == listed.count)
                    }
                }
            }
        }
    }
#endif
