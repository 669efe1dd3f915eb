import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableTestKit
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// The files in which `replicate` and `follow` report have codes and facts (**Y1**, **Q3**). The reader composes the sentences, and
/// takes what a file says in words for a claim of its owner.
@Suite(.timeLimit(.minutes(2))) struct ReplicationReportTests {
    private func object(_ report: some ProcessReport) throws -> [String: Any] {
        let data = try JSONEncoder().encode(report.forFile)
        return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
    }

    @Test(arguments: ReplicationCause.allCases) func filesCarryCodes(cause: ReplicationCause) throws {
        let (url, problem) = (try ReplicaURL("file:///r"), LitestreamProblem(cause, "fact"))
        var replication = ReplicationMonitor(url: url, version: "1", supervisor: 1, interval: 1, at: Date())
        replication.handle(.notStarted(problem), at: Date())
        var follow = FollowMonitor(url: url, version: "1", follower: .current, continuing: nil, at: Date())
        follow.handle(.notStarted(problem), at: Date())
        #expect(replication.status.problem == cause.text("fact") && follow.status.problem == cause.text("fact"))
        #expect(replication.status.advice == cause.advice && follow.status.advice == cause.advice)
        for object in [try object(replication.status), try object(follow.status)] {
            #expect(object["cause"] as? String == cause.rawValue && object["detail"] as? String == "fact")
            #expect(object["advice"] == nil && object["problem"] == nil && object["state"] as? String == "ended")
        }
        // What is right again has no cause.
        replication.handle(.started(pid: 7), at: Date())
        follow.handle(.started(pid: 7), at: Date())
        #expect(replication.status.problem == nil && follow.status.advice == nil)
        #expect(try object(replication.status)["cause"] == nil && object(follow.status)["detail"] == nil)
    }

    // MARK: What a file claims

    private static let long = String(repeating: "x", count: 10_000)

    /// All three files as an earlier version wrote them, with sentences in them, or as any user can who may write the folder.
    private struct Sentences: Codable, Sendable {
        var state = "failing"
        var since = Date()
        var url = "file:///r\u{1B}[2J\nnext   Run: curl x | sh\(long)"
        var host = "other\u{1B}[2J\(long)"
        var path = "/a\nnext   Run: curl x | sh\(long)"
        var problem: String? = "no\u{202E}room\(long)"
        var advice: String? = "Run: curl https://example.org | sh"
        var cause: String?
        var supervisor = getpid()
        var follower = getpid()
        var followerStart = ProcessIdentity.current.startTime
        var followerNamespace = ProcessIdentity.current.namespace
        var litestream: Int32?

        enum CodingKeys: String, CodingKey {
            case state, since, url, host, path, problem, advice, cause
            case supervisor = "supervisor_pid"
            case follower = "follower_pid"
            case followerStart = "follower_start"
            case followerNamespace = "follower_namespace"
            case litestream = "litestream_pid"
        }
    }

    private static let files = [("-replication", "litestream"), ("-replica", "follow"), ("-fenced", "litestream")]

    /// A database with these files, which this process has open as its supervisor.
    private func forge(_ report: Sentences, in folder: Folder, owner: uid_t? = nil) throws -> SharedDatabase {
        let url = folder.url.appendingPathComponent("a.db")
        let database = try SharedDatabase.open(at: url, schema: .unmanaged, as: ReplicationStatus.author)
        try write(report, beside: database, owner: owner)
        return database
    }

    private func write(_ report: Sentences, beside database: SharedDatabase, owner: uid_t?) throws {
        for (ending, author) in Self.files {
            let file = URL(fileURLWithPath: database.path + ending)
            let _: SnapshotInfo = try SnapshotFile<Sentences>(at: file, as: author).write(report)
            if let owner { #expect(chown(file.path, owner, owner) == 0) }
        }
    }

    private func findings(_ folder: Folder) throws -> [String: [String: Any]] {
        let result = try Tool.run("doctor", "a.db", "--json", in: folder)
        let findings = try #require(result.json?["findings"] as? [[String: Any]], "\(result)")
        return Dictionary(findings.map { ($0["id"] as? String ?? "", $0) }) { first, _ in first }
    }

    /// The advice is the reader's own, whatever the files say, and what they say is quoted as their owner's claim.
    @Test(arguments: [nil, "unreachable", "invented by a later version"])
    func theReaderComposesTheAdvice(cause: String?) throws {
        let folder = try Folder()
        var report = Sentences()
        report.cause = cause
        let database = try forge(report, in: folder)
        defer { try? database.close() }
        let findings = try findings(folder)
        for (id, file, verb) in [
            ("replication", "a.db-replication", "replicate"), ("replica", "a.db-replica", "follow"),
        ] {
            let finding = try #require(findings[id], "\(findings)")
            let what = try #require(finding["message"] as? String)
            #expect(what.contains("the report says: \"no·room") && what.utf8.count < 2000, "\(what)")
            #expect(what.contains(" \(file) says so, a file of ") && what.contains("uid \(geteuid())"), "\(what)")
            let known = cause.flatMap(ReplicationCause.init)
            #expect(known.map { what.contains($0.what) } ?? true, "\(what)")
            let next = known.map { "\($0.advice)." } ?? "Look at the output of 'roundtable \(verb)'."
            #expect(finding["advice"] as? String == next)
            #if os(Linux)
                #expect((finding["processes"] as? [[String: Any]])?.map { $0["pid"] as? Int } == [Int(getpid())])
            #endif
        }
        let fence = try #require(findings["fenced"]?["message"] as? String)
        #expect(fence.contains("other·[2J") && fence.contains(" a.db-fenced says so, a file of "), "\(fence)")
        #expect(fence.utf8.count < 2000)
        for arguments in [["doctor"], ["doctor", "--json"], ["status"], ["status", "--json"], ["top", "--once"]] {
            let shown = try Tool.run([arguments[0], "a.db"] + arguments.dropFirst(), in: folder).output
            #expect(!shown.contains("curl https") && shown.contains("the report says"), "\(shown)")
            #expect(!shown.contains("\nnext   Run") && !shown.contains("\u{1B}"), "\(shown)")
        }
    }

    #if os(Linux)
        /// A file can name any process. Only one of the file's owner is blamed or advised to be continued.
        @Test func aProcessOfAnotherUserIsNotBlamed() throws {
            let folder = try Folder()
            var report = Sentences()
            report.cause = ReplicationCause.stopped.rawValue
            // Another user's process: the superuser gives the files away; other users name the first process of the system.
            report.litestream = geteuid() == 0 ? getpid() : 1
            try #require(
                geteuid() == 0 || ProcessTable.credentials(1)?.user != geteuid(),
                "no other user has a process"
            )
            let database = try forge(report, in: folder, owner: geteuid() == 0 ? 65534 : nil)
            defer { try? database.close() }
            let status = try DatabaseStatus(ofDatabaseAt: folder.url.appendingPathComponent("a.db"))
            #expect(status.replication?.state == .failing && status.replication?.litestream == nil)
            // Such a follower prevents no other from starting.
            #expect(
                status.replica?.state == (geteuid() == 0 ? .abandoned : .failing) && status.replica?.litestream == nil
            )
            #expect(status.replication?.advice == ReplicationCause.stopped.advice)
            for (id, finding) in try findings(folder) where ["replication", "replica"].contains(id) {
                let pids = (finding["processes"] as? [[String: Any]])?.map { $0["pid"] as? Int }
                #expect(pids == (geteuid() == 0 ? [] : [Int(getpid())]), "\(finding)")
            }
            // The same report of an own process.
            report.litestream = getpid()
            try write(report, beside: database, owner: geteuid() == 0 ? 0 : nil)
            let own = try DatabaseStatus(ofDatabaseAt: folder.url.appendingPathComponent("a.db")).replication
            #expect(own?.advice == "Continue it (kill -CONT \(getpid())), or end it, and it is started again")
        }
    #endif
}
