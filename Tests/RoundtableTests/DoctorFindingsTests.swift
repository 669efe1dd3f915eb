import Foundation
import GRDB
import Testing

@testable import Roundtable

/// What the doctor makes of facts that are hard to come by.
@Suite struct DoctorFindingsTests {
    private let status: DatabaseStatus

    init() throws {
        let folder = try TemporaryFolder()
        let url = folder.file("a.db")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        try db.write { try $0.execute(sql: "CREATE TABLE t(x)") }
        status = try SharedDatabase.status(ofDatabaseAt: url)
        try db.close()
    }

    private func findings(_ status: DatabaseStatus, _ facts: Doctor.Facts = Doctor.Facts()) -> [Diagnosis.Finding] {
        var doctor = Doctor(path: status.path)
        doctor.examine(status, facts)
        return doctor.diagnosis.findings.filter { $0.topic != .walResetBug }
    }

    @Test func nothing() { #expect(findings(status).isEmpty) }

    @Test func littleSpace() {
        let found = findings(status, Doctor.Facts(freeSpace: (status.files.wal ?? 0) - 1))
        #expect(found.map(\.topic) == [.lowDiskSpace] && found.first?.severity == .warning)
        #expect(findings(status, Doctor.Facts(freeSpace: 1 << 40)).isEmpty)
    }

    @Test func networkFileSystem() throws {
        var doctor = Doctor(path: "/net/a.db")
        try doctor.refuse(.networkFileSystem(path: "/net/a.db", name: "NFS"))
        #expect(doctor.diagnosis.findings.map(\.topic) == [.networkFileSystem])
        #expect(doctor.diagnosis.severity == .error)
    }

    @Test func whatCannotBeRead() {
        var doctor = Doctor(path: "/a.db")
        doctor.refuse(DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "permission denied"))
        #expect(doctor.diagnosis.findings.map(\.topic) == [.permissions])
        #expect(doctor.diagnosis.severity == .error)
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
        let party = Diagnosis.Party(pid: me, name: "app", isParticipant: true)
        status.participants[0].liveness = .stopped
        #expect(findings(status).first?.severity == .warning)
        let checkpointing = Doctor.Facts(checkpointer: party)
        let found = findings(status, checkpointing).first
        #expect(found?.topic == .frozenParticipant && found?.severity == .error && found?.who == [party])
        #expect(found?.what.contains("the CKPT lock: nobody can checkpoint") == true)
        status.participants[0].state = .suspended
        #expect(findings(status).isEmpty)
        #expect(findings(status, checkpointing).first?.severity == .error)
    }

    /// Somebody who is at it is in nobody's way.
    @Test func checkpointsUnderWay() {
        var status = status
        status.wal?.committedFrames = 1500
        status.wal?.backfilledFrames = 0
        let party = Diagnosis.Party(pid: 1, name: "app", isParticipant: true)
        #expect(findings(status).map(\.topic) == [.notCheckpointed])
        #expect(findings(status, Doctor.Facts(checkpointer: party)).isEmpty)
        status.wal?.backfilledFrames = 600
        #expect(findings(status).isEmpty)
    }

    @Test func theWorstIsFirst() {
        var status = status
        status.controlBlock.state = .absent
        status.participants[0].liveness = .stopped
        status.writeLock = Diagnosis.Party(pid: status.participants[0].pid, name: "app", isParticipant: true)
        status.wal?.committedFrames = 5000
        let severities = findings(status).map(\.severity)
        #expect(severities.first == .error && severities.last == .note && severities == severities.sorted(by: >))
    }
}
