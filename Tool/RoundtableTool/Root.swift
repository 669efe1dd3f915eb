import ArgumentParser
import Foundation
import RoundtableKernel
import RoundtableReplication
import RoundtableToolSupport

/// The command line. It prints an error as one line on standard error: what happened, where, and what to do next.
@main
struct Root: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "roundtable",
        abstract: "One SQLite database, many processes, and everyone gets a turn.",
        discussion: """
            Start with 'roundtable demo', in which several processes share one database. What looks at databases works on any SQLite \
            database, shared or not; 'watch' and 'history' on any in WAL mode.

            Examples:
              roundtable status app.db
              roundtable top app.db
              roundtable doctor app.db --check

            With --json, each object has "format": 1, and what is not known is left out. An error is the last object on standard output, \
            {"error":{"exit_code":…,"message":"…"},"format":1}, and a line on standard error, too. 'sql --json' prints rows alone.

            Exit code: 0 when all is well; 1 when the verb failed, or what it was asked about is not there; 2 when that is there, and bad; 64 when \
            the arguments are wrong; 128 + N when signal N ended it.
            """,
        version: "0.1.0",
        subcommands: [DemoCommand.self, DemoPeerCommand.self],
        groupedSubcommands: [
            CommandGroup(
                name: "Look",
                subcommands: [StatusCommand.self, TopCommand.self, DoctorCommand.self, RecordCommand.self]
            ),
            CommandGroup(name: "Query and watch", subcommands: [SQLCommand.self, WatchCommand.self]),
            CommandGroup(
                name: "History, snapshot files and outbox",
                subcommands: [HistoryCommand.self, SnapshotCommand.self, OutboxVerb.self]
            ),
            CommandGroup(name: "Replace and move aside", subcommands: [ReplaceCommand.self, QuarantineCommand.self]),
            CommandGroup(
                name: "Replicate",
                subcommands: [ReplicateCommand.self, RestoreCommand.self, FollowCommand.self, PromoteCommand.self]
            ),
            CommandGroup(name: "Test", subcommands: [PoliceCommand.self]),
        ]
    )

    /// Swift repairs such an argument, which would make it the name of another file. Here, its other bytes are written `\xe9`.
    private static var argumentThatIsNotUTF8: String? {
        for argument in UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc)) {
            guard let argument, String(validatingCString: argument) == nil else { continue }
            let bytes = UnsafeBufferPointer(start: argument, count: strlen(argument)).map { UInt8(bitPattern: $0) }
            return bytes.map { $0 < 0x80 ? String(UnicodeScalar($0)) : "\\x" + String($0, radix: 16) }.joined()
        }
        return nil
    }

    static func main() async {
        InheritedSignals.unblock()
        if let argument = argumentThatIsNotUTF8 {
            end("'\(argument)': not UTF-8. A file of that name must be renamed first.", .validationFailure)
        }
        do {
            var command = try parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            let code = exitCode(for: error)
            // These are help, the version, and errors that have already been reported.
            if code.isSuccess || error is ExitCode { exit(withError: error) }
            if code == .validationFailure {
                let verb = CommandLine.arguments.dropFirst().first { name in
                    configuration.subcommands.contains { $0.configuration.commandName == name }
                }
                let name = ["roundtable", verb].compactMap(\.self).joined(separator: " ")
                var message = GivenPlace.redacting(message(for: error), arguments: CommandLine.arguments)
                var hint = ""
                if verb == nil, let word = CommandLine.arguments.dropFirst().first, !word.hasPrefix("-") {
                    message = GivenPlace.redacting("There is no verb '\(word)'", arguments: [word])
                    hint = Self.verb(meantBy: word).map { " Did you mean '\($0)'?" } ?? ""
                }
                message = Spelling.keepingNearHints(message)
                let isSentence = message.hasSuffix(".") || message.hasSuffix("?")
                end("\(message)\(isSentence ? "" : ".")\(hint) Try '\(name) --help'.", code)
            }
            end(ToolError.line(for: error), (error as? ToolError).map { ExitCode($0.exitCode) } ?? code)
        }
    }

    /// Ends the program with an error.
    private static func end(_ line: String, _ code: ExitCode) -> Never {
        Terminal.complain(line)
        // What standard output cannot take is in the exit code.
        if wantsErrorObject { _ = try? Terminal.writeIfRead(PrintedJSON.error(line, exitCode: code.rawValue)) }
        Foundation.exit(code.rawValue)
    }

    /// Whether an error is printed as an object, too. The rows of `sql` have the keys of their columns, and an error could pass for one.
    private static var wantsErrorObject: Bool {
        let arguments = CommandLine.arguments.dropFirst().prefix { $0 != "--" }
        return arguments.contains("--json") && arguments.first != SQLCommand.configuration.commandName
    }

    /// The names of the verbs that the help shows.
    static var verbs: [String] {
        configuration.subcommands.filter { $0.configuration.shouldDisplay }.compactMap { $0.configuration.commandName }
    }

    /// The verb that a word was probably meant to be; nil when none is near.
    private static func verb(meantBy word: String) -> String? {
        if isDatabase(word) { return "roundtable status \(word.shellQuoted)" }
        return Spelling.nearest(to: word, among: verbs)
    }

    /// Whether a word is the path of a file, or is named like a database.
    private static func isDatabase(_ word: String) -> Bool {
        if FileManager.default.fileExists(atPath: word) { return true }
        return !word.contains("://") && ["db", "sqlite", "sqlite3"].contains((word as NSString).pathExtension)
    }
}
