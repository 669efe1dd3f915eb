import ArgumentParser
import Foundation
import RoundtableKernel
import RoundtableToolSupport
import Synchronization

struct RecordCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record",
        abstract: "Record who writes, who waits, and what holds the WAL back, to be looked at later.",
        discussion: """
            Looks from outside as 'top' does, and writes what it sees as lines of JSON: the turns 20 times a second, the rest once a \
            second. Takes no turn, changes nothing of the database, and holds no read transaction between two looks. \
            'roundtable-inspector --recording FILE' shows a recording as a page.

            With -o, the file keeps the last minutes, as --keep says, so that it can run for days: after a complaint, look at what \
            happened before. Others cannot read the file, because it has names of tables and lines of code in it. Without -o, the \
            lines go to standard output.

            A database that does not exist yet is waited for. Ends with Ctrl-C.

            Examples:
              roundtable record app.db -o app.recording
              roundtable record app.db | jq -c 'select(.kind == "turns")'
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Option(
        name: [.customShort("o"), .long],
        help: ArgumentHelp("The file to record into.", valueName: "file"),
        completion: .file()
    )
    var output: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("How much the file keeps, at least.", valueName: "seconds"))
    var keep = 600.0

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The time between two looks at the whole state.", valueName: "seconds")
    )
    var every = 1.0

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The time between two looks at the turns.", valueName: "seconds")
    )
    var turnsEvery = 0.05

    func validate() throws {
        if output?.isEmpty == true { throw ValidationError("--output takes the path of a file, which is not empty.") }
        guard every >= 0.1, every <= 86_400 else {
            throw ValidationError("--every takes a number of seconds, from 0.1 to 86400.")
        }
        guard turnsEvery >= 0.01, turnsEvery <= 86_400 else {
            throw ValidationError("--turns-every takes a number of seconds, from 0.01 to 86400.")
        }
        guard keep >= 1, keep <= 1e7 else {
            throw ValidationError("--keep takes a number of seconds, from 1 to 10000000.")
        }
    }

    func run() throws {
        let ending = Mutex<Int32?>(nil)
        let isEnding = MonotonicSemaphore()
        let signals = EndingSignals { number in
            let isFirst = ending.withLock { ending in
                defer { ending = ending ?? number }
                return ending == nil
            }
            // A look may wait without a limit: SQLite opens whatever is at the path, and may meet a pipe. Then the second signal ends it.
            if !isFirst { _exit(128 + number) }
            isEnding.signal()
        }
        defer { signals.ignore() }
        var recorder = Recorder(URL(fileURLWithPath: path), every: every, turnsEvery: turnsEvery)
        var file = try output.map {
            try RecordingFile(path: $0, header: recorder.header, keep: Nanoseconds(keep * 1e9))
        }
        defer { file?.close() }
        if file == nil { try Terminal.print(recorder.header) }
        var reported: String??
        repeat {
            for line in recorder.look() {
                if file == nil { try Terminal.print(line) } else { try file?.write(line) }
            }
            // A misspelt path would otherwise be noticed only when the recording is needed.
            if file != nil, reported != .some(recorder.problem) {
                reported = .some(recorder.problem)
                Terminal.complain(
                    recorder.problem.map { "waiting until it can be recorded: \($0)" } ?? "recording \(path)"
                )
            }
        } while !isEnding.wait(until: recorder.deadline)
        if let number = ending.withLock({ $0 }) { throw ExitCode(128 + number) }
    }
}
