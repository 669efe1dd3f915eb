import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableProcesses
import RoundtableTestBasics
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// No part of the place of a replica or a store that may be a credential is shown, stored, or in the arguments of a child.
@Suite struct SecretsTests {
    private let folder: Folder
    init() throws { folder = try Folder() }

    /// In each, `hunter` is a part of what must not be shown, and nothing else.
    static let replicas = [
        "sftp://me:hunter2@host:22/path",
        "sftp://me:%22hunter%5C2%40%2Fs%C3%A9%20r@host/path",
        "nats://hunter-token@host:4222/bucket",
        "abs://account:hunter%2Bkey%3D%3D@container/path",
        "s3://bucket/path?region=eu&secret-access-key=hunter/+2&endpoint=http://host:9000",
        "s3://bucket/path?x=hunter%22%5C",
        "s3://bucket/path?hunter2",
        "s3://bucket/path?endpoint=https://me:hunter2@host:9000/hunter%203",
        "gs://bucket/path?sig=hunter%2By%3D#hunter-end",
        "webdav://me:12/hunter@host/path",
    ]
    static let stores = [
        ":sftp,host=h,user=me,pass=hunter2:/path",
        ":s3,provider=Other,env_auth=true,secret_access_key=\"hunter\"\"2,c:d\":bucket/path",
        ":webdav,url='https://me:hunter2@host/dav',vendor=other:path",
        ":http,url='https://host',headers='Authorization,Bearer hunter2':path",
        ":drive,token='{\"access_token\":\"hunter\\2\",\"expiry\":\"2026\"}':path",
        ":gcs,service_account_credentials='{\"private_key\":\"-----BEGIN\\nhunter\\n\"}':bucket",
        ":azureblob,sas_url='https://a.host/c?sv=1&sig=hunter%2By%3D':container",
        ":s3,provider=hunter/2,region='hunter 3',session_token=hunter4:bucket",
        ":s3,endpoint='http://me:hunter2@host:9000/?x=hunter3',new_kind_of_parameter=hunter:bucket",
        "my-remote,client_secret=hunter2,password='hunter 2''3':path",
    ]

    /// What a program may print of a place: the place, and each of its parts, decoded or not, quoted once or twice, in lines and in one.
    private static func messages(_ place: String) throws -> [String] {
        func quoted(_ text: String) throws -> String {
            let encoder = JSONEncoder()
            encoder.outputFormatting = .withoutEscapingSlashes
            return String(decoding: try encoder.encode(text), as: UTF8.self)
        }
        let parts = place.split { "@?&#='".contains($0) }.map(String.init).filter { $0.contains("hunter") }
        let decoded = parts.map { $0.removingPercentEncoding ?? $0 }
        let encoded = decoded.compactMap { $0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) }
        // A name and a colon, or a user, may come before a secret.
        let all = parts + decoded + encoded + encoded.map { $0.replacing(/%[0-9A-F]{2}/) { $0.output.lowercased() } }
        return try all.flatMap { ["dial \($0): refused", "parse \(try quoted($0)): bad", try quoted(quoted($0))] }
    }

    private func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    @Test(arguments: replicas)
    func aReplicaShowsNoCredentials(_ text: String) throws {
        let url = try ReplicaURL(text)
        let (start, database) = (Date(), folder.path("app.db"))
        #expect(url.text == text)
        var places = [
            "shown": url.shown, "a folder below": url.appending("roundtable/claims/1").shown,
            "no backup": RestoreFailure.nothing(at: url).description,
            "the parser": GivenPlace.redacting("Unexpected argument '\(text)'", arguments: ["roundtable", text]),
            "the parser, of an option": GivenPlace.redacting("Unknown '--too=\(text)'", arguments: ["--too=\(text)"]),
        ]
        let request = RestoreRequest(url: url, at: nil, output: folder.path("output"))
        places["arguments of a child"] = request.arguments(isPlan: false).joined(separator: " ")
        try Data("a".utf8).write(to: URL(fileURLWithPath: database))
        try TermRecord(besideDatabaseAt: database).set(.first, at: url, ofDatabaseAt: database)
        for message in try Self.messages(text) + [text] {
            places["redacted \(message)"] = url.redacting(message)
            places["problem \(message)"] = LitestreamProblem(message: message, of: url).what
            places["restore \(message)"] = RestoreFailure.error(message, from: url, into: "/d").description
            places["claim \(message)"] = ClaimFailure(message, of: url).description
            let line = LitestreamLine(#"{"level":"ERROR","msg":"sync","error":\#(try json(message))}"#)
            var replication = ReplicationMonitor(url: url, version: "1", supervisor: 1, interval: 1, at: start)
            replication.handle(.started(pid: 7), at: start)
            replication.handle(.log(line), at: start + 1)
            replication.handle(.answered(lastSync: nil), at: start + 2)
            #expect(replication.status.state == .failing)
            places["replication \(message)"] = try json(replication.status)
            try ReplicationStatus.file(besideDatabaseAt: database).write(replication.status)
            var follow = FollowMonitor(url: url, version: "1", follower: .current, continuing: nil, at: start)
            follow.handle(.started(pid: 7), at: start)
            follow.handle(.log(line), at: start + 1)
            follow.handle(.ended(.status(1)), at: start + 2)
            places["replica \(message)"] = try json(follow.status)
        }
        for (name, data) in try folder.contents { places["file \(name)"] = String(decoding: data, as: UTF8.self) }
        for (place, shown) in places { #expect(!shown.lowercased().contains("hunter"), "\(place)") }
    }

    @Test(arguments: stores)
    func aStoreShowsNoCredentials(_ text: String) throws {
        let url = try StoreURL(text)
        var places = [
            "shown": url.shown, "arguments of a child": url.place(of: "routes/x"),
            "the parser": GivenPlace.redacting("Unexpected argument '\(text)'", arguments: ["roundtable", text]),
        ]
        let printed =
            try Self.messages(text)
            + url.environment.values.flatMap {
                [$0, try json($0), $0.split(separator: "\n").joined(separator: "\nERROR : ")]
            }
        for message in printed where message.contains("hunter") {
            let output = ProgramOutput(
                exit: .status(1),
                standardOutput: "",
                standardError: "2026/11/27 10:00:00 ERROR : \(message)\n"
            )
            let problem = RcloneFailure.problem(output, of: url)
            places["problem \(message)"] = problem.what
            var monitor = TravelMonitor(
                OutboxTravelStatus(.ship, store: url.shown, version: nil, at: Date()),
                interval: 2
            )
            monitor.failed(problem, at: Date())
            places["round \(message)"] = PrintedJSON.text(monitor.status)
            try OutboxTravelStatus.file(.ship, inOutboxAt: folder.url.path).write(monitor.status)
        }
        #expect(places.count > 3, "no message had a secret")
        for (name, data) in try folder.contents { places["file \(name)"] = String(decoding: data, as: UTF8.self) }
        for (place, shown) in places { #expect(!shown.lowercased().contains("hunter"), "\(place)") }
    }

    /// A program may name the user without the password, or the password without the user.
    @Test(arguments: ["sftp://me:hunt%20er2@host/path", "s3://bucket/path?endpoint=https://me:hunt%20er2@host"])
    func aUserAndAPasswordAreHiddenOneByOne(_ text: String) throws {
        let shown = try ReplicaURL(text).redacting("me: the passwords 'hunt%20er2' and \"hunt er2\" are refused")
        #expect(shown == "…: the passwords '…' and \"…\" are refused")
    }

    /// What identifies a place is shown.
    @Test func whatIsKnownToBeHarmlessIsShown() throws {
        let url = try ReplicaURL(
            "s3://KEY:hunter2@bucket/a/path?region=eu-1&x=y&endpoint=http%3A%2F%2Fhost:9000/&forcePathStyle=true"
        )
        #expect(url.shown == "s3://…@bucket/a/path?region=eu-1&…&endpoint=http://host:9000&forcePathStyle=true")
        #expect(try ReplicaURL(url.shown).shown == url.shown, "an older record of a term is found by what it shows")
        #expect(
            try ReplicaURL("s3://arn:aws:s3:eu:1:accesspoint/path").shown == "s3://arn:aws:s3:eu:1:accesspoint/path"
        )
        #expect(try ReplicaURL("sftp://[::1]:22/p").shown == "sftp://[::1]:22/p")
        #expect(try StoreURL(":s3,provider=AWS,env_auth=true:bucket/path").shown == ":s3,provider=AWS,…:bucket/path")
        #expect(try StoreURL(":s3,provider=AWS:bucket").shown == ":s3,provider=AWS:bucket")
        #expect(url.redacting("no such host: host:9000, region eu-1") == "no such host: host:9000, region eu-1")
    }

    /// What is refused is not shown either.
    @Test(arguments: [
        "file://me:hunter2@host", "file:me:hunter2@host", "sftp://me:hunter/2@host/path",
        "sftp://me:hunter#2@host/path",
        "me:hunter2@host/path", "s3://bucket/path?x=hunter\n2", "s3://?secret=hunter2", "hunter2,x=y",
        "sftp://@:hunter/",
    ])
    func whatIsNoReplicaIsNotShown(_ text: String) {
        let error = #expect(throws: ToolError.self) { try ReplicaURL(text) }
        #expect(error?.description.contains("hunter") == false, "\(error.debugDescription)")
    }

    @Test(arguments: [
        ":sftp,pass=a:hunter:path", "-hunter", ":s3,secret_access_key=hunter\n2:bucket", "s3://me:hunter2@host",
        ":s3,a='hunter", "x,hunter2/y", ":s3,endpoint=http://h,secret_access_key=hunter2:bucket",
    ])
    func whatIsNoStoreIsNotShown(_ text: String) {
        let error = #expect(throws: ToolError.self) { try StoreURL(text) }
        #expect(error?.description.contains("hunter") == false, "\(error.debugDescription)")
    }

    /// A shell that replaces `$URL` in `@env:$URL` or `@$URL` puts the place itself there.
    @Test(arguments: replicas + stores)
    func aPlaceAfterASignIsNotShown(_ text: String) {
        for argument in ["@env:\(text)", "@\(text)"] {
            let error = #expect(throws: ToolError.self) { try GivenPlace(argument) }
            #expect(error?.description.contains("hunter") == false, "\(error.debugDescription)")
            for arguments in [["--to", argument], ["--to=\(argument)"]] {
                let message = "The value '\(argument)' is invalid for '--to <url>'"
                let shown = GivenPlace.redacting(message, arguments: arguments)
                #expect(!shown.contains("hunter"), "\(shown)")
            }
        }
    }

    /// Short secrets count as words, so that they do not cut other words into pieces; and of two, the longer one is looked for first.
    @Test func textsAreRedactedInAllSpellings() {
        func redacted(_ secret: String, _ text: String) -> String { Secrets([secret]).redacting(text) }
        #expect(redacted("S", "u:S@h is Safe") == "u:…@h is Safe")
        #expect(redacted("a b", "a b, a+b, a%20b") == "…, …, …")
        #expect(redacted("a%20bc", "a bc, a%20bc, a%2520bc") == "…, …, …")
        #expect(
            redacted("pä\"s\\s", #"pä"s\s, pä\"s\\s, pä\\\"s\\\\s, p%C3%A4%22s%5cs, p\u00e4\"s\\s"#) == "…, …, …, …, …"
        )
        #expect(redacted("<&>x", #"<&>x, \u003c\u0026\u003ex, \x3c&>x"#) == "…, …, …")
        #expect(redacted("line 1\nline 2", "line 1\nx: line 2, line 1\\nline 2") == "…\nx: …, …")
        #expect(Secrets(["abcd", "abcdef"]).redacting("abcdef") == "…")
        #expect(redacted("true", "true") == "true" && Secrets(["", "false"]).isEmpty)
        let long = String(repeating: "\\", count: 200)
        #expect(redacted(long, long) == "…")
    }

    // MARK: Where a place is given

    @Test func aPlaceIsReadFromAFileOrAVariable() throws {
        let path = folder.path("url")
        try "s3://bucket/path?x=hunter2\n".write(toFile: path, atomically: true, encoding: .utf8)
        let url = try GivenPlace("@\(path)")
        #expect(url.text == "s3://bucket/path?x=hunter2" && !url.isArgument)
        #expect(try GivenPlace("s3://a/b") == GivenPlace("s3://a/b") && GivenPlace("s3://a/b").isArgument)
        let name = "ROUNDTABLE_TEST_\(UInt32.random(in: 0 ... .max))"
        setenv(name, "sftp://me:hunter2@host/p", 1)
        #expect(try GivenPlace("@env:\(name)").text == "sftp://me:hunter2@host/p")
        #expect(ProcessInfo.processInfo.environment[name] == nil, "no child inherits it")
        for (content, part) in [
            ("", "but 0 lines"), ("hunter\nx\n", "but 2 lines"), (String(repeating: "x", count: 70000), "is no text"),
        ] {
            try content.write(toFile: path, atomically: true, encoding: .utf8)
            let error = #expect(throws: ToolError.self) { try GivenPlace("@\(path)") }
            #expect(error?.description.contains(part) == true && error?.description.contains("hunter") == false)
        }
        #expect(throws: ToolError.self) { try GivenPlace("@\(folder.path("none"))") }
        #expect(throws: ToolError.self) { try GivenPlace("@env:\(name)") }
    }

    /// A file with the URL is worth a warning if other users may use it: only the group, or only all other users.
    @Test(arguments: [(0o600, false), (0o640, true), (0o604, true)])
    func aFileThatOtherUsersMayReadIsWarnedOf(mode: Int, isWarned: Bool) throws {
        let path = folder.path("url")
        try "sftp://me:hunter2@host/path".write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        let result = try run(["restore", "@url", "app.db", "--litestream", "/no/such/program"])
        #expect(result.code == 1 && !result.errors.contains("hunter"), "\(result.errors)")
        #expect(result.errors.contains("url: other users may use this file") == isWarned, "\(result.errors)")
        #expect(result.errors.contains("chmod 600 url") == isWarned, "\(result.errors)")
    }

    /// A program that writes its arguments, its environment and its configuration to files, says its version, and fails with all it knows.
    ///
    /// - parameter script: what it does before it fails.
    private func program(_ name: String, version: String, _ script: String = "") throws -> String {
        let path = folder.path(name)
        let script = """
            #!/bin/sh
            echo "$@" >> '\(folder.path("child.arguments"))'
            env >> '\(folder.path("child.environment"))'
            if [ "$1" = version ]; then echo '\(version)'; exit 0; fi
            \(script)
            { env; env | grep hunter; [ -e /dev/fd/3 ] && cat /dev/fd/3; } >&2
            exit 1
            """
        try script.write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
        return path
    }

    /// Runs the tool with a variable, which is then in neither its arguments nor the environment of its children.
    private func run(_ arguments: [String], variable: String? = nil) throws -> Tool.Result {
        let tool = try Tool.url.path
        return try Tool.run(
            [variable.map { "PLACE=\($0)" }].compactMap(\.self) + [tool] + arguments,
            in: folder,
            program: URL(fileURLWithPath: "/usr/bin/env")
        )
    }

    private func check(
        _ result: Tool.Result,
        code: Int32 = 1,
        exceptEnvironment isPassed: Bool,
        _ comment: Comment
    ) throws {
        #expect(result.code == code, "\(comment): \(result)")
        #expect(!(result.output + result.errors).contains("hunter"), comment)
        for (name, data) in try folder.contents where !["url", "litestream", "rclone"].contains(name) {
            let text = String(decoding: data, as: UTF8.self)
            if name == "child.environment" {
                #expect(!text.contains("PLACE="), comment)
                #expect(text.contains("hunter") == isPassed, comment)
            } else {
                #expect(!text.contains("hunter"), "\(comment): \(name)")
            }
        }
        try? FileManager.default.removeItem(atPath: folder.path("child.environment"))
    }

    /// The argument for a place, and the variable that has it, if it is given so.
    private func given(_ place: String, _ way: String) throws -> (String, String?) {
        if way == "argument" { return (place, nil) }
        if way == "variable" { return ("@env:PLACE", place) }
        try place.write(toFile: folder.path("url"), atomically: true, encoding: .utf8)
        return ("@url", nil)
    }

    /// The whole tool: neither its output, nor its files, nor the arguments of its children have a credential. Litestream gets the URL by a
    /// pipe, rclone the parameters by the environment.
    @Test(.long(), arguments: ["file", "variable", "argument"])
    func theToolShowsNoCredentials(_ way: String) throws {
        let litestream = try program("litestream", version: "0.5.17")
        let rclone = try program("rclone", version: "rclone v1.60.1")
        for text in Self.replicas {
            let (url, variable) = try given(text, way)
            let result = try run(["restore", url, "new.db", "--litestream", litestream], variable: variable)
            try check(result, exceptEnvironment: false, "restore \(text)")
        }
        for text in Self.stores {
            let (url, variable) = try given(text, way)
            let arguments = ["outbox", "ship", "app.db", "--once", "--to", url, "--rclone", rclone]
            try check(try run(arguments, variable: variable), exceptEnvironment: true, "ship \(text)")
        }
    }

    /// A Litestream that reports errors with all it knows, waits until the report of its supervisor has the error, looks at the database by
    /// each verb that shows it, and ends its supervisor. There is no claim and no backup.
    private func failingLitestream() throws -> String {
        let tool = "'\(try Tool.url.path)'"
        return try program(
            "litestream",
            version: "0.5.17",
            #"""
            say() {
                printf 'Error: %s\n' "$1" >&2
                printf '{"level":"ERROR","msg":"sync","error":"%s"}\n' "$(printf %s "$1" | sed 's/[\\"]/\\&/g')" >&2
            }
            look() {
                tries=0
                until grep -q '"cause"' "$1$2" || [ $tries -gt 400 ]; do tries=$((tries + 1)); sleep 0.05; done
                cp "$1$2" shown.report
                for verb in status doctor 'top --once'; do \#(tool) $verb "$1"; \#(tool) $verb "$1" --json; done > shown.looks 2>&1
                \#(tool) record "$1" --every 0.1 | head -n 8 > shown.recording
                kill -TERM $PPID
                exit 1
            }
            case "$*" in
            *' -txid '*) say "$(cat /dev/fd/3)"; echo 'Error: no matching backup files available' >&2; exit 1 ;;
            list*) echo '{"databases":[{}]}'; exit 0 ;;
            'replicate -no-expand-env '*) say "$(cat /dev/fd/3)"; look d.db -replication ;;
            'restore '*' -f '*) say "$(cat /dev/fd/3)"; look r.db -replica ;;
            esac
            """#
        )
    }

    private static let ways = ["file", "variable", "argument"]
    private static let verbs = ["replicate", "follow", "promote"]

    /// What runs for long, while it runs: its reports, and what `status`, `doctor`, `top` and `record`, whose lines the inspector gets, make of
    /// them, have no credential. Each verb has each replica once, given in one of three ways.
    @Test(.long(oneIn: 32), .timeLimit(.minutes(5)), arguments: Self.ways, Self.verbs)
    func whatRunsForLongShowsNoCredentials(_ way: String, _ verb: String) throws {
        let litestream = try failingLitestream()
        for name in ["d.db", "r.db"] {
            #expect(try Tool.run("sql", name, "CREATE TABLE t(x)", in: folder).code == 0)
        }
        try ReplicaStatus.file(besideDatabaseAt: folder.path("r.db"))
            .write(ReplicaStatus(state: .abandoned, since: Date()))
        let turn = Self.ways.firstIndex(of: way)! + Self.verbs.firstIndex(of: verb)!
        for (index, text) in Self.replicas.enumerated() where index % 3 == turn % 3 {
            let (url, variable) = try given(text, way)
            let arguments =
                switch verb {
                case "replicate": ["replicate", "d.db", "--to", url]
                case "follow": ["follow", url, "r.db"]
                default: ["promote", url, "p.db"]
                }
            let result = try run(arguments + ["--litestream", litestream], variable: variable)
            // A follower ends well; a bucket of NATS has no terms.
            let code: Int32 = verb == "follow" ? 0 : verb == "promote" && text.hasPrefix("nats") ? 64 : 1
            try check(result, code: code, exceptEnvironment: false, "\(verb) \(text)")
            guard verb != "promote" else { continue }
            let shown = try folder.contents.mapValues { String(decoding: $0, as: UTF8.self) }
            let report = try #require(shown["shown.report"], "\(result)")
            #expect(report.contains("\"cause\":\"") && report.contains("\"detail\":\""), "\(report)")
            #expect(!report.contains("\"advice\"") && !report.contains("\"problem\""), "\(report)")
            for name in ["shown.looks", "shown.recording"] {
                #expect(shown[name]?.contains("the report says") == true, "\(name): \(shown[name] ?? "")")
                try FileManager.default.removeItem(atPath: folder.path(name))
            }
        }
    }

    /// Only a credential that all users can see while the program runs is worth a warning.
    @Test func argumentsOfLongRunningProgramsAreWarnedOf() throws {
        let warning = "which all users of this machine can see while it runs"
        let none = ["--litestream", "/no/such/program"]
        let secret = "sftp://me:hunter2@host/path"
        try secret.write(toFile: folder.path("url"), atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: folder.path("url"))
        for (arguments, isWarned) in [
            (["replicate", "app.db", "--to", secret], true),
            (["replicate", "app.db", "--to", "s3://bucket/path"], false),
            (["replicate", "app.db", "--to", "@url"], false), (["follow", secret, "app.db"], true),
            (["follow", "@url", "app.db"], false), (["restore", secret, "app.db"], false),
        ] {
            let result = try run(arguments + none)
            #expect(result.code == 1 && result.errors.contains(warning) == isWarned, "\(arguments)")
            #expect(!result.errors.contains("hunter"))
            #expect(result.errors.contains("url: other users may use this file") == arguments.contains("@url"))
        }
        let store = [":sftp,host=h,pass=hunter2:/path", "--rclone", "/no/such/program"]
        #expect(try run(["outbox", "ship", "app.db", "--to"] + store).errors.contains(warning))
        #expect(try run(["outbox", "collect", "app.db", "--from"] + store).errors.contains(warning))
        #expect(try !run(["outbox", "ship", "app.db", "--once", "--to"] + store).errors.contains(warning))
    }
}
