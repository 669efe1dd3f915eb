import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDiagnostics

/// What the doctor makes of facts that are hard to come by.
@Suite struct DoctorFindingsTests {
    private let status: DatabaseStatus

    init() throws {
        let folder = try TemporaryFolder()
        let url = folder.file("a.db")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        try db.write { try $0.execute(sql: "CREATE TABLE t(x)") }
        status = try DatabaseStatus(ofDatabaseAt: url)
        try db.close()
    }

    private typealias Facts = DatabaseDiagnosis.SystemFacts

    private func findings(_ status: DatabaseStatus, _ facts: Facts = Facts()) -> [DatabaseDiagnosis.Finding] {
        var diagnosis = DatabaseDiagnosis(path: status.path, findings: [], unknowns: [])
        diagnosis.examine(status, facts)
        return diagnosis.findings.filter { $0.topic != .walResetBug }
    }

    /// The tables of Roundtable and of GRDB's migrations are not the app's.
    @Test func tablesOfTheApp() throws {
        let folder = try TemporaryFolder()
        let url = folder.file("a.db")
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") {
            try $0.execute(sql: "CREATE TABLE roundtables(x); CREATE TABLE t(id INTEGER PRIMARY KEY)")
        }
        let db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "app")
        try db.history.enable(for: "t")
        #expect(try DatabaseStatus(ofDatabaseAt: url).schema?.tableCount == 2)
        try db.close()
    }

    /// What `print` shows is for people.
    @Test func descriptions() throws {
        var status = status
        status.outbox = waiting(2, for: 5)
        status.unknowns = ["The moon."]
        let text = "\(status)"
        #expect(text.hasPrefix("\(status.path)\n  WAL, ") && text.contains("schema: 1 table, user_version 0\n"))
        #expect(text.contains("\n  participant: 'app' (pid \(getpid())), read-write\n"))
        #expect(text.contains("\n  outbox: 2 commands waiting") && text.hasSuffix("\n  not known: The moon."))
        var diagnosis = DatabaseDiagnosis(path: "/a.db", findings: [], unknowns: [])
        #expect("\(diagnosis)" == "/a.db\n  nothing is wrong")
        diagnosis.find(.corrupt, .error, "It is broken.", advice: "Mend it.")
        #expect("\(diagnosis)" == "/a.db\n  error: It is broken. (/a.db) Mend it.")
    }

    @Test func nothing() { #expect(findings(status).isEmpty) }

    @Test func littleSpace() {
        let found = findings(status, Facts(freeSpace: (status.files.wal ?? 0) - 1))
        #expect(found.map(\.topic) == [.lowDiskSpace] && found.first?.severity == .warning)
        #expect(findings(status, Facts(freeSpace: 1 << 40)).isEmpty)
    }

    /// A measured danger of small blocks: SQLite touches one byte in each 4 KiB of `-shm`, and another block of them may not be allocatable.
    @Test func smallBlocks() throws {
        func found(_ block: Int, free: Int) -> [DatabaseDiagnosis.Finding] {
            findings(status, Facts(freeSpace: free, blockSize: block))
        }
        let little = 16 << 20
        for block in [512, 1024, 2048] {
            let finding = found(block, free: little).first
            #expect(finding?.topic == .lowDiskSpace && finding?.severity == .warning)
            #expect(finding?.message.contains("SIGBUS") == true && finding?.location == status.path + "-shm")
            #expect(found(block, free: 1 << 30).isEmpty)
        }
        #expect(found(4096, free: little).isEmpty)
        let folder = try TemporaryFolder()
        let url = folder.file("a.db")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        defer { try? db.close() }
        let outbox = try DatabaseStatus.outboxFolder(nil, besideDatabaseAt: db.path)
        let own = try System.blockSize(ofFileSystemHolding: db.path)
        let facts = Facts(of: try DatabaseStatus(ofDatabaseAt: url), outbox: outbox)
        #expect(own >= 512 && facts.blockSize == own)
    }

    @Test func noFileWatch() {
        let cases = [(EMFILE, "fs.inotify.max_user_instances"), (ENOSPC, "fs.inotify.max_user_watches")]
        for (errno, limit) in cases {
            let error = SystemError(call: .inotify, errno: errno, path: "/tmp")
            let found = findings(status, Facts(watchShortage: error))
            #expect(found.map(\.topic) == [.noFileWatch] && found.first?.severity == .warning)
            #expect(found.first?.advice.contains(limit) == true)
            // The disk is not full, and the limit on open files is not the one to raise first.
            let event = "\(OutboxError(error, folder: "/tmp"))"
            #expect(event.contains(limit) && !event.contains("disk is full"), "\(event)")
        }
    }

    #if os(Linux)
        @Test func aShortageIsSeen() {
            #expect(ProcessTable.watchShortage(at: "/tmp") == nil)
            #expect(ProcessTable.watchShortage(at: "/nowhere") == nil)
            for (skipping, errno) in [(0, EMFILE), (1, ENOSPC)] {
                System.withFaults([Fault(.inotify, errno: errno, skipping: skipping)]) {
                    #expect(ProcessTable.watchShortage(at: "/tmp")?.errno == errno)
                }
            }
        }
    #endif

    @Test func networkFileSystem() throws {
        var diagnosis = DatabaseDiagnosis(path: "/net/a.db", findings: [], unknowns: [])
        try diagnosis.refuse(.networkFileSystem(path: "/net/a.db", name: "NFS"))
        #expect(diagnosis.findings.map(\.topic) == [.networkFileSystem])
        #expect(diagnosis.severity == .error)
    }

    @Test func whatCannotBeRead() {
        var diagnosis = DatabaseDiagnosis(path: "/a.db", findings: [], unknowns: [])
        diagnosis.refuse(DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "permission denied"))
        #expect(diagnosis.findings.map(\.topic) == [.permissions])
        #expect(diagnosis.severity == .error)
    }

    /// A message may be a sentence already.
    @Test(arguments: ["permission denied", "permission denied."])
    func oneFullStop(message: String) {
        for code in [ResultCode.SQLITE_CANTOPEN, .SQLITE_IOERR] {
            var diagnosis = DatabaseDiagnosis(path: "/a.db", findings: [], unknowns: [])
            diagnosis.refuse(DatabaseError(resultCode: code, message: message))
            let what = diagnosis.findings.first?.message ?? ""
            #expect(what.hasSuffix("permission denied.") && !what.hasSuffix(".."), "\(what)")
        }
    }

    @Test func unreadableControlBlock() {
        var status = status
        status.controlBlock.state = .unreadable
        status.controlBlock.problem = "permission denied"
        #expect(findings(status).map(\.topic) == [.controlBlock])
        #expect(findings(status).first?.severity == .warning)
    }

    /// One that was suspended before is as it should be, unless it holds a lock all the same.
    @Test func stopped() {
        var status = status
        let me = status.participants[0].pid
        let party = SharingProcess(pid: me, name: "app", isParticipant: true, liveness: .stopped)
        status.participants[0].liveness = .stopped
        #expect(findings(status).first?.severity == .warning)
        let checkpointing = Facts(checkpointer: party)
        let found = findings(status, checkpointing).first
        #expect(found?.topic == .frozenParticipant && found?.severity == .error && found?.processes == [party])
        #expect(found?.message.contains("the CKPT lock: no other process can checkpoint") == true)
        status.participants[0].state = .suspended
        #expect(findings(status).isEmpty)
        #expect(findings(status, checkpointing).first?.severity == .error)
    }

    /// A participant that was stopped while it began to read shows no read. Its locks do, and its finding comes before the WAL's.
    @Test func stoppedReader() {
        var status = status
        let me = status.participants[0]
        var party = me.party
        party.liveness = .stopped
        status.participants[0].liveness = .stopped
        status.wal = WALHealth(committedFrames: 5000, backfilledFrames: 10, size: 5000 * 4120)
        status.wal?.pins = [WALHealth.Pin(holder: party, heldFrames: 4990)]
        let found = findings(status)
        #expect(found.map(\.topic) == [.frozenParticipant, .longWAL], "\(found)")
        #expect(found.first?.processes.map(\.pid) == [me.pid])
        #expect(found.first?.message.contains("is stopped in the middle of a read, and holds 4,990 WAL frames") == true)
        #expect(found.first?.advice == "Continue it (kill -CONT \(me.pid)) or end it, which ends its read.")
        // One that was suspended has no excuse for such a read either.
        status.participants[0].state = .suspended
        #expect(findings(status).map(\.topic) == [.longRead, .longWAL])
        // One that runs, and does not show its read.
        status.participants[0].state = .present
        status.participants[0].liveness = .alive
        status.wal?.pins[0].holder.liveness = .alive
        #expect(findings(status).map(\.topic) == [.longRead, .longWAL])
    }

    /// A process that is checkpointing blocks no other process.
    @Test func checkpointsUnderWay() {
        var status = status
        status.wal?.committedFrames = 1500
        status.wal?.backfilledFrames = 0
        let party = SharingProcess(pid: 1, name: "app", isParticipant: true)
        #expect(findings(status).map(\.topic) == [.notCheckpointed])
        #expect(findings(status, Facts(checkpointer: party)).isEmpty)
        status.wal?.backfilledFrames = 600
        #expect(findings(status).isEmpty)
    }

    @Test func checkpointsThatFail() {
        var status = status
        status.wal?.committedFrames = 1500
        status.wal?.backfilledFrames = 0
        let app = status.participants[0]
        status.wal?.failure = .init(
            code: 13,
            reason: "database or disk is full",
            age: .seconds(2),
            by: .init(pid: app.pid, name: app.author, isParticipant: true, liveness: .alive)
        )
        let found = findings(status)
        #expect(found.map(\.topic) == [.checkpointFails])
        #expect(
            found.first?.message.hasPrefix("Checkpoints fail: database or disk is full (SQLite error 13), 2.0 s ago.")
                == true
        )
        #expect(found.first?.processes.map(\.pid) == [app.pid])
        #expect(found.first?.advice.hasPrefix("Free space") == true)
        status.wal?.failure?.code = 2570
        #expect(findings(status).first?.advice.hasPrefix("The disk may be failing") == true)
    }

    private func outbox(_ change: (inout OutboxStatus) -> Void = { _ in }) -> OutboxStatus {
        var outbox = OutboxStatus(path: status.path + "-outbox", waiting: 0, bytes: 0, damaged: 0, owners: [])
        change(&outbox)
        return outbox
    }

    private func waiting(_ count: Int, for seconds: TimeInterval, owners: [SharingProcess]? = []) -> OutboxStatus {
        outbox { outbox in
            outbox.waiting = count
            outbox.bytes = count * 200
            outbox.oldest = Date(timeIntervalSinceNow: -seconds)
            outbox.owners = owners
        }
    }

    @Test func `An outbox with nothing in it, or for a moment`() {
        var status = status
        status.outbox = outbox()
        #expect(findings(status).isEmpty)
        let app = SharingProcess(pid: status.participants[0].pid, name: "app", isParticipant: true)
        status.outbox = waiting(3, for: 5, owners: [app])
        #expect(findings(status).isEmpty)
        status.outbox?.owners = nil
        #expect(findings(status).isEmpty)
    }

    @Test func `Commands wait, and no process applies them`() throws {
        var status = status
        let app = SharingProcess(
            pid: status.participants[0].pid,
            name: "app",
            isParticipant: true,
            liveness: .alive
        )
        status.outbox = waiting(3, for: 5)
        var found = try #require(findings(status).first)
        #expect(found.topic == .commandsWait && found.severity == .notice && found.processes == [app])
        #expect(
            found.message
                == "3 commands (600 B) wait in the outbox, the oldest for 5 s, and no running process applies commands."
        )
        #expect(
            found.advice.contains("`roundtable outbox \(status.path.shellQuoted)`")
                && found.location.hasSuffix("-outbox")
        )
        status.outbox = waiting(3, for: 61)
        #expect(findings(status).first?.severity == .warning)
        // No process runs: that is as expected, for a day.
        status.participants = []
        found = try #require(findings(status).first)
        #expect(found.severity == .notice && found.message.contains("no process runs that could apply them"))
        status.outbox = waiting(1, for: 25 * 3600)
        found = try #require(findings(status).first)
        #expect(
            found.severity == .warning && found.message.hasPrefix("1 command (200 B) waits in the outbox, for 25 h")
        )
    }

    @Test func `Commands wait for a process that is held up, or does nothing`() throws {
        var status = status
        let app = SharingProcess(pid: status.participants[0].pid, name: "app", isParticipant: true)
        status.outbox = waiting(3, for: 90, owners: [app])
        #expect(findings(status).map(\.topic) == [.commandsWait] && findings(status).first?.severity == .warning)
        status.outbox?.owners = nil
        #expect(findings(status).first?.message.hasSuffix("although a participant runs that may write.") == true)
        status.outbox?.owners = [app]
        status.participants[0].state = .suspended
        let suspended = try #require(findings(status).first)
        #expect(suspended.severity == .notice && suspended.advice.contains("when it is resumed"))
        status.participants[0].state = .present
        status.participants[0].liveness = .stopped
        let stopped = try #require(findings(status).first { $0.topic == .commandsWait })
        #expect(stopped.severity == .warning && stopped.advice.contains("kill -CONT \(app.pid)"))
    }

    @Test func `An outbox that is full, or has files that no process applies`() {
        var status = status
        status.outbox = waiting(9000, for: 5, owners: [.init(pid: status.participants[0].pid, isParticipant: true)])
        #expect(findings(status).map(\.topic) == [.fullOutbox])
        status.outbox = outbox { outbox in
            outbox.deadLetters = 3
            outbox.deadLettersToRetry = 1
            outbox.damaged = 1
        }
        let found = findings(status)
        #expect(found.map(\.topic) == [.deadLetters, .damagedCommands] && found.allSatisfy { $0.severity == .warning })
        #expect(found[0].message.hasPrefix("3 commands were set aside, and not applied. 1 of them waits"))
        #expect(found[1].message == "1 file in the outbox was not a whole command, and was moved away.")
        // Where it does not lie beside the database, the command line says where.
        status.outbox?.path = "/group/out box"
        #expect(findings(status)[0].advice.contains("--folder '/group/out box'`"))
    }

    @Test func theWorstIsFirst() {
        var status = status
        status.controlBlock.state = .absent
        status.participants[0].liveness = .stopped
        status.writeLock = SharingProcess(pid: status.participants[0].pid, name: "app", isParticipant: true)
        status.wal?.committedFrames = 5000
        let severities = findings(status).map(\.severity)
        #expect(severities.first == .error && severities.last == .notice && severities == severities.sorted(by: >))
    }
}
