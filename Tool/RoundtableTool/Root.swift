import ArgumentParser
import Foundation
import RoundtableReplication
import RoundtableToolSupport

/// The command line. It prints an error as one line on standard error: what happened, where, and what to do next.
@main
struct Root: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "roundtable",
        abstract: "One SQLite database, many processes, and everyone gets a turn.",
        discussion: """
            Start with 'roundtable demo': it shows several processes sharing one database. 'roundtable sql', 'roundtable status', \
            'roundtable top', 'roundtable record' and 'roundtable doctor' work on any SQLite database, shared or not; 'roundtable watch' and 'roundtable \
            history' on any in WAL mode; 'roundtable snapshot' shows snapshot files, 'roundtable outbox' the commands that wait for a database; 'roundtable \
            restore' restores a database from a replica; 'roundtable replace' replaces the content of a database that is in use, and 'roundtable quarantine' moves a damaged one aside; 'roundtable police' judges any program.
            """,
        version: "0.1.0",
        subcommands: [
            DemoCommand.self, SQLCommand.self, StatusCommand.self, TopCommand.self, RecordCommand.self,
            DoctorCommand.self,
            WatchCommand.self,
            HistoryCommand.self,
            SnapshotCommand.self,
            OutboxVerb.self,
            ReplicateCommand.self,
            RestoreCommand.self, ReplaceCommand.self, QuarantineCommand.self, FollowCommand.self, PromoteCommand.self,
            PoliceCommand.self,
            DemoPeerCommand.self,
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
            Terminal.complain("'\(argument)': not UTF-8. A file of that name must be renamed first.")
            Foundation.exit(ExitCode.validationFailure.rawValue)
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
                Terminal.complain("\(message)\(message.hasSuffix(".") ? "" : ".")\(hint) Try '\(name) --help'.")
            } else {
                Terminal.complain(ToolError.line(for: error))
            }
            Foundation.exit(code.rawValue)
        }
    }

    /// The verb that a word was probably meant to be; nil when none is near.
    private static func verb(meantBy word: String) -> String? {
        let shown = configuration.subcommands.filter { $0.configuration.shouldDisplay }
        let verbs = shown.compactMap { $0.configuration.commandName }
        return Spelling.nearest(to: word, among: verbs)
    }
}
