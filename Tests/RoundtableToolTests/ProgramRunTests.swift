import Foundation
import RoundtableProcesses
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication

/// A run ends with its program, whatever its children do, and whatever the program does to its output.
@Suite struct ProgramRunTests {
    private func start(_ script: String) throws -> ProgramRun {
        try ProgramRun(ProgramLaunch("/bin/sh", ["-c", script]))
    }

    /// The program's child inherits the pipes, and keeps them open.
    @Test func aChildThatContinues() throws {
        let run = try start("echo begun; sleep 100 & exit 3")
        defer { kill(-run.pid, SIGKILL) }
        let output = try #require(try run.wait(upTo: 20_000))
        #expect(output.exit == .status(3))
        #expect(output.standardOutput == "begun\n")
    }

    /// A thread that gets no processor while its program writes and ends reads all of it later.
    @Test func outputThatIsReadLate() throws {
        let run = try start("head -c 60000 /dev/zero; head -c 50000 /dev/zero >&2; sleep 100 & exit 3")
        defer { kill(-run.pid, SIGKILL) }
        ProgramExit.hasEnded(run.pid, waits: true)
        let output = try #require(try run.wait(upTo: 0, patience: .zero))
        #expect(output.standardOutput.utf8.count == 60_000)
        #expect(output.standardError.utf8.count == 50_000)
    }

    @Test func aProgramThatClosesItsOutput() throws {
        let run = try start("echo begun; exec >&- 2>&-; sleep 100")
        defer { kill(-run.pid, SIGKILL) }
        #expect(try run.wait(upTo: 500) == nil)
        run.signal(SIGTERM)
        let output = try #require(try run.wait(upTo: 20_000))
        #expect(output.exit == .signal(SIGTERM))
        #expect(output.standardOutput == "begun\n")
        // The run remembers how the program has ended.
        #expect(try run.wait(upTo: 0)?.exit == .signal(SIGTERM))
    }

    /// A program ends by a signal that its parent ignores.
    @Test func aSignalThatTheParentIgnores() throws {
        let before = signal(SIGUSR1, SIG_IGN)
        defer { signal(SIGUSR1, before) }
        let output = try #require(try start("kill -USR1 $$; exit 0").wait(upTo: 20_000))
        #expect(output.exit == .signal(SIGUSR1))
    }
}
