#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import GRDB
    import Roundtable
    import RoundtableCore
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// A user who may only read a database can hold read locks on its files, which lock out other users (`docs/SECURITY.md`, **SA5**, **SA6**).
        /// That is not prevented, but errors, `status` and `doctor` name the process and its user.
        @Suite(.enabled(if: Program.python != nil, "python3 is not installed"))
        struct SecurityReader {
            /// The user that the reader becomes, if the tests may start one as another user.
            private static let user = isSuperuser ? nobody : geteuid()

            /// Opens a file for reading alone, and holds a read lock on some bytes until it gets a line: a lock of the process, or of the open file
            /// description (F_OFD_SETLK), whose process the system does not list.
            private static let script = """
                import fcntl, os, struct, sys
                path, start, length, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
                if os.geteuid() == 0:
                    os.setgroups([]); os.setgid(65534); os.setuid(65534)
                file = os.open(path, os.O_RDONLY)
                command = 37 if kind == "description" else fcntl.F_SETLK
                fcntl.fcntl(file, command, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, start, length, 0))
                print("locked", flush=True)
                sys.stdin.readline()
                """

            private struct Reader {
                let pid: Int32
                /// Returns when the process has ended.
                let end: () throws -> Void
            }

            private func lock(
                _ path: String,
                _ bytes: Range<Int>,
                of kind: String = "process",
                in fleet: PeerFleet
            ) throws -> Reader {
                let process = try fleet.spawn(
                    program: try #require(Program.python),
                    arguments: ["-c", Self.script, path, "\(bytes.lowerBound)", "\(bytes.count)", kind]
                )
                let session = ProgramSession(process)
                #expect(try session.receive() == "locked")
                return Reader(pid: process.pid) {
                    try session.send("end")
                    _ = try process.waitForExit(within: .seconds(20))
                }
            }

            /// Byte 120 of `-shm`: no process can write meanwhile, and each learns why.
            @Test(.timeLimit(.minutes(1)), arguments: ["process", "description"])
            func aReaderThatStopsWritersIsNamed(kind: String) throws {
                try PeerFleet.run { fleet in
                    let writer = try fleet.spawnOpen("writer", options: PeerOptions(busyTimeout: 300))
                    try writer.call(.write(rows: 1))
                    let path = fleet.database.path
                    for file in [path, path + "-shm"] { #expect(chmod(file, 0o644) == 0) }
                    #expect(try DatabaseStatus(ofDatabaseAt: fleet.database).obstructingLocks == nil)
                    let reader = try lock(path + "-shm", 120..<121, of: kind, in: fleet)

                    let reply = try writer.attempt(.write(rows: 1))
                    let message = try #require(reply.message)
                    #expect((reply.code ?? 0) & 0xFF == 5)
                    let name =
                        "(pid \(reader.pid)) of user \(Self.user) holds a read lock on SQLite's write lock (byte 120 of -shm)"
                    #expect(message.contains(name), "\(message)")
                    let status = try DatabaseStatus(ofDatabaseAt: fleet.database)
                    #expect(status.writeLock == nil)
                    #expect(status.obstructingLocks?.map(\.kind) == [.write])
                    #expect(status.obstructingLocks?.first?.holder?.pid == reader.pid)
                    #expect(status.obstructingLocks?.first?.user == Self.user)
                    let finding = try DatabaseDiagnosis(ofDatabaseAt: fleet.database).findings.first {
                        $0.topic == .obstructingLock
                    }
                    #expect(finding?.severity == .error && finding?.processes.map(\.pid) == [reader.pid])
                    let shown = try tool(["status", path])
                    #expect(shown.contains("keeps all writers out, by a read lock on byte 120"), "\(shown)")
                    for arguments in [["top", path, "--once"], ["top", path, "--once", "--json"]] {
                        let top = try tool(arguments)
                        #expect(top.contains("(pid \(reader.pid)) of user \(Self.user) holds a read lock on"), "\(top)")
                        let isKeptOut = top.contains("writes") && top.contains("keeps all writers out, by a read lock")
                        #expect(isKeptOut != arguments.contains("--json"), "\(top)")
                    }
                    // The error of a wal-index that cannot be recovered because of such a lock.
                    let protocolError = DatabaseError(resultCode: .SQLITE_PROTOCOL).namingFile(path)
                    #expect(protocolError.resultCode == .SQLITE_PROTOCOL)
                    #expect(
                        protocolError.message?.contains("locking protocol: the wal-index (-shm) has to be recovered")
                            == true
                    )
                    #expect(protocolError.message?.contains(name) == true)

                    try reader.end()
                    try writer.call(.write(rows: 1))
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [writer])
                }
            }

            /// After a crash, the wal-index must be recovered, which byte 120 does not allow: SQLite stops trying after 10 s.
            @Test(.long(), .timeLimit(.minutes(1)))
            func afterACrashTheErrorNamesTheReader() throws {
                try PeerFleet.run { fleet in
                    let writer = try fleet.spawnOpen("writer")
                    try writer.call(.write(rows: 1))
                    let path = fleet.database.path
                    for file in [path, path + "-shm"] { #expect(chmod(file, 0o644) == 0) }
                    let reader = try lock(path + "-shm", 120..<121, in: fleet)
                    #expect(kill(writer.pid, SIGKILL) == 0)
                    _ = try writer.process.waitForExit()
                    let shown = try tool(["sql", path, "SELECT 1"])
                    #expect(shown.contains("(pid \(reader.pid)) of user \(Self.user)"), "\(shown)")
                    #expect(shown.contains("byte 120 of -shm"), "\(shown)")
                    try reader.end()
                }
            }

            /// Slots of the control block: participants that come later have no slot, work without turns, and lose nothing.
            @Test(.timeLimit(.minutes(1)), arguments: ["process", "description"])
            func aReaderThatLocksSlotsIsNamed(kind: String) throws {
                try PeerFleet.run { fleet in
                    let writer = try fleet.spawnOpen("writer")
                    try writer.call(.write(rows: 1))
                    #expect(chmod(fleet.controlBlock.path, 0o644) == 0)
                    // The slot of the writer is locked by itself.
                    let slots =
                        Layout.headerSize + Layout.slotSize..<Layout.headerSize + Layout.slotSize * Layout.slotCount
                    let reader = try lock(fleet.controlBlock.path, slots, of: kind, in: fleet)
                    let late = try fleet.spawnOpen("late")
                    try late.call(.write(rows: 1))
                    try writer.call(.write(rows: 1))
                    let status = try DatabaseStatus(ofDatabaseAt: fleet.database)
                    #expect(status.participants.map(\.author) == ["writer"])
                    #expect(status.obstructingLocks?.map(\.kind) == [.slots])
                    #expect(status.obstructingLocks?.first?.holder?.pid == reader.pid)
                    let finding = try DatabaseDiagnosis(ofDatabaseAt: fleet.database).findings.first {
                        $0.topic == .obstructingLock
                    }
                    #expect(finding?.severity == .warning && finding?.location == fleet.controlBlock.path)
                    try reader.end()
                    let third = try fleet.spawnOpen("third")
                    #expect(
                        try DatabaseStatus(ofDatabaseAt: fleet.database).participants.contains { $0.author == "third" }
                    )
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [writer, late, third])
                }
            }

            /// The system does not let another user see which process holds the lock. The lock is shown without a name.
            @Test(.timeLimit(.minutes(1)), .enabled(if: OtherUser.isPossible, "needs root, to become another user"))
            func aReaderThatMayNotBeInspectedIsShown() throws {
                try PeerFleet.run { fleet in
                    let writer = try fleet.spawnOpen("writer")
                    try writer.call(.write(rows: 1))
                    let database = fleet.database
                    let path = database.path
                    for file in [path, path + "-shm", fleet.controlBlock.path] { #expect(chmod(file, 0o644) == 0) }
                    let reader = try lock(path + "-shm", 120..<121, of: "description", in: fleet)
                    let (status, error) = try OtherUser.runBlocking(as: Self.user - 1) {
                        let status = try DatabaseStatus(ofDatabaseAt: database)
                        return (status, DatabaseError(resultCode: .SQLITE_PROTOCOL).namingFile(path))
                    }
                    #expect(status.obstructingLocks == [ObstructingLock(.write, pid: nil)])
                    let holder = "a process that this one may not inspect holds a read lock on SQLite's write lock"
                    #expect(error.message?.contains(holder) == true, "\(error)")
                    try reader.end()
                }
            }

            /// What the tool prints.
            private func tool(_ arguments: [String]) throws -> String {
                let (process, output) = (Process(), Pipe())
                process.executableURL = try PeerFleet.program(named: "roundtable")
                process.arguments = arguments
                process.standardOutput = output
                process.standardError = output
                try process.run()
                let text = output.fileHandleForReading.readDataToEndOfFile()
                process.waitUntilExit()
                return String(decoding: text, as: UTF8.self)
            }
        }
    }
#endif
