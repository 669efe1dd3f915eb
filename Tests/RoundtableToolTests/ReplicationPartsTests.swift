import Foundation
import RoundtableTestSupport
import Testing

@testable import Roundtable
@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// What `roundtable replicate` makes of Litestream's output, without Litestream.
@Suite struct ReplicationPartsTests {
    private let start = Date(timeIntervalSince1970: 1_000_000)

    private func monitor(interval: Double = 1, url: String = "s3://bucket/db") throws -> ReplicationMonitor {
        ReplicationMonitor(
            url: try ReplicaURL(url),
            version: "0.5.17",
            supervisor: 1,
            interval: interval,
            at: start
        )
    }

    private func error(_ text: String) -> ReplicationMonitor.Event {
        .log(LitestreamLine(#"{"level":"ERROR","msg":"sync error","error":"\#(text)"}"#))
    }

    @Test func aReplicationBeginsAndContinues() throws {
        var monitor = try monitor()
        #expect(monitor.status.state == .starting)
        monitor.handle(.started(pid: 7), at: start)
        monitor.handle(.answered(lastSync: nil), at: start + 1)
        #expect(monitor.status.state == .starting)
        monitor.handle(.answered(lastSync: start + 2), at: start + 3)
        #expect(monitor.status.state == .replicating)
        #expect(monitor.status.since == start + 3)
        #expect(monitor.status.litestream == 7)
        monitor.handle(.answered(lastSync: start + 4), at: start + 5)
        #expect(monitor.status.since == start + 3, "the state is the same")
        #expect(monitor.status.lastSync == start + 4)
        #expect(monitor.status.problem == nil)
    }

    @Test func anErrorCountsUntilALaterSync() throws {
        var monitor = try monitor()
        monitor.handle(.started(pid: 7), at: start)
        monitor.handle(.answered(lastSync: start + 1), at: start + 2)
        monitor.handle(error("connection refused"), at: start + 3)
        #expect(monitor.status.state == .replicating, "the next answer decides")
        monitor.handle(.answered(lastSync: start + 1), at: start + 4)
        #expect(monitor.status.state == .failing)
        #expect(monitor.status.problem?.contains("cannot be reached") == true)
        monitor.handle(.answered(lastSync: start + 5), at: start + 6)
        #expect(monitor.status.state == .replicating)
        #expect(monitor.status.problem == nil && monitor.status.advice == nil)
    }

    /// The clock is set back by an hour. An error that comes then counts, as does the next sync.
    @Test func aClockThatIsSetBack() throws {
        var monitor = try monitor()
        monitor.handle(.started(pid: 7), at: start)
        let lastSync = start + 1
        monitor.handle(.answered(lastSync: lastSync), at: start + 2)
        #expect(monitor.status.state == .replicating)
        let later = start - 3600
        monitor.handle(error("connection refused"), at: later)
        monitor.handle(.answered(lastSync: lastSync), at: later + 1)
        #expect(monitor.status.state == .failing)
        monitor.handle(.answered(lastSync: lastSync), at: later + 2)
        #expect(monitor.status.state == .failing, "no sync was made meanwhile")
        monitor.handle(.answered(lastSync: later + 3), at: later + 4)
        #expect(monitor.status.state == .replicating)
        #expect(monitor.status.lastSync == later + 3)
    }

    /// An error that was made before the clock was set back stays as old as it was.
    @Test func anErrorBeforeTheClockIsSetBack() throws {
        for isAfterTheSync in [true, false] {
            var monitor = try monitor()
            monitor.handle(.started(pid: 7), at: start)
            monitor.handle(error("connection refused"), at: start + 2)
            monitor.handle(.answered(lastSync: start + (isAfterTheSync ? 1 : 3)), at: start + 4)
            monitor.handle(.answered(lastSync: start + (isAfterTheSync ? 1 : 3)), at: start - 3600)
            #expect(monitor.status.state == (isAfterTheSync ? .failing : .replicating))
        }
    }

    @Test func anUploadThatHangsIsNoticed() throws {
        for interval in [1.0, 60] {
            var monitor = try monitor(interval: interval)
            monitor.handle(.started(pid: 7), at: start)
            monitor.handle(.answered(lastSync: start), at: start)
            let patience = max(30, 5 * interval)
            monitor.handle(.answered(lastSync: start), at: start + patience)
            #expect(monitor.status.state == .replicating)
            monitor.handle(.answered(lastSync: start), at: start + patience + 1)
            #expect(monitor.status.state == .failing)
        }
    }

    @Test func silenceTwiceIsUnresponsive() throws {
        var monitor = try monitor()
        monitor.handle(.started(pid: 7), at: start)
        monitor.handle(.didNotAnswer(isStopped: true), at: start + 1)
        #expect(monitor.status.state == .starting)
        monitor.handle(.didNotAnswer(isStopped: false), at: start + 3)
        #expect(monitor.status.state == .unresponsive)
        #expect(monitor.status.advice?.contains("can be reached") == true)
        monitor.handle(.didNotAnswer(isStopped: true), at: start + 5)
        #expect(monitor.status.advice?.contains("kill -CONT 7") == true)
        monitor.handle(.answered(lastSync: start + 6), at: start + 6)
        #expect(monitor.status.state == .replicating)
    }

    @Test func pausesBetweenStartsGrow() throws {
        var monitor = try monitor()
        var pauses: [Double] = []
        for second in 0..<9 {
            monitor.handle(.started(pid: 7), at: start + Double(second))
            monitor.handle(error("no space left on device"), at: start + Double(second))
            monitor.handle(.ended(.status(1)), at: start + Double(second))
            pauses.append(monitor.pause)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60])
        #expect(monitor.status.state == .ended)
        #expect(
            monitor.status.problem?.contains(
                "the disk is full (Litestream has ended with exit code 1: sync error: no space"
            ) == true
        )
        #expect(monitor.status.litestream == nil)
        monitor.handle(.started(pid: 8), at: start + 100)
        monitor.handle(.ended(.signal(9)), at: start + 200)
        #expect(monitor.pause == 1, "it has worked for a while")
    }

    @Test func errorsAreExplained() throws {
        let replica = try ReplicaURL("sftp://me:hunter2@host/path")
        let explained = [
            ("write /db: no space left on device", "the disk is full"),
            ("operation error S3: ListObjectsV2, get identity: get credentials: failed", "refuses the credentials"),
            ("api error InvalidAccessKeyId: The key does not exist", "refuses the credentials"),
            ("api error NoSuchBucket: none", "bucket does not exist"),
            ("dial tcp 127.0.0.1:9: connect: connection refused", "cannot be reached"),
            ("open /x: permission denied", "cannot be written"),
            ("file is not a database (26)", "cannot read the database"),
            ("something new", "something new"),
        ]
        for (message, what) in explained {
            let problem = LitestreamProblem(message: message, of: replica)
            #expect(problem.what.contains(what), "\(message)")
            #expect(problem.what.contains(message), "the cause is shown")
            #expect(!problem.cause.advice.isEmpty)
        }
        let long = LitestreamProblem(message: String(repeating: "x", count: 1000) + "\nsecond line", of: replica)
        #expect(long.detail?.count == 240)
        #expect(LitestreamProblem(message: "a hunter2 b\nc", of: replica).detail == "a … b c")
    }

    @Test func linesOfAnyKindAreRead() {
        let info = LitestreamLine(#"{"time":"2026","level":"INFO","msg":"replicating to","type":"file"}"#)
        #expect(!info.isError && info.text == "replicating to")
        let error = LitestreamLine(#"{"level":"ERROR","msg":"sync error","db":"a","error":"bad"}"#)
        #expect(error.isError && error.text == "sync error: bad")
        #expect(LitestreamLine("Error: cannot open store").text == "cannot open store")
        #expect(LitestreamLine("Error: cannot open store").isError)
        #expect(LitestreamLine("panic: oops").isError)
        #expect(!LitestreamLine("SDK 2026/11/23 WARN falling back").isError)
        #expect(!LitestreamLine("").isError)
    }

    @Test func answersOfAnyKindAreRead() {
        let answer = LitestreamListing(
            #"{"databases":[{"path":"/a","status":"replicating","last_sync_at":"2026-11-23T17:01:55.201945931Z"}]}"#
        )
        #expect(answer?.lastSync.map { Int($0.timeIntervalSince1970) } == 1_795_453_315)
        #expect(
            LitestreamListing(#"{"databases":[{"path":"/a","status":"replicating"}]}"#)
                == LitestreamListing(lastSync: nil)
        )
        #expect(LitestreamListing(#"{"databases":[]}"#) == nil)
        #expect(LitestreamListing("Error: no socket") == nil)
    }

    @Test func credentialsAreNotShown() throws {
        var monitor = try monitor(url: "sftp://me:hunter2@host/path")
        monitor.handle(.started(pid: 1), at: start)
        monitor.handle(error("cannot connect with hunter2"), at: start + 1)
        monitor.handle(.answered(lastSync: nil), at: start + 2)
        #expect(monitor.status.problem == "Litestream reports an error (sync error: cannot connect with …)")
    }

    /// Any path and any URL reach Litestream unchanged.
    @Test func theConfigurationIsJSON() throws {
        let configuration = LitestreamConfiguration(
            databasePath: #"/tmp/a "b" $HOME: {x} #é.db"#,
            replica: try ReplicaURL("file:///tmp/$x"),
            interval: 0.25,
            socketPath: "/tmp/s"
        )
        let text = try configuration.text
        let json = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        let database = try #require((json["dbs"] as? [[String: Any]])?.first)
        #expect(database["path"] as? String == #"/tmp/a "b" $HOME: {x} #é.db"#)
        #expect(database["monitor-interval"] as? String == "250ms")
        #expect(
            (database["replica"] as? [String: String]) == ["type": "file", "path": "/tmp/$x", "sync-interval": "250ms"]
        )
        #expect((json["socket"] as? [String: Any])?["path"] as? String == "/tmp/s")
    }
}
