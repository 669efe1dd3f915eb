import ArgumentParser
import Foundation

/// Measures Roundtable beside its peers, in one run.
struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "roundtable-bench",
        abstract: "Measures Roundtable beside plain GRDB and SQLite's C interface, in one run.",
        discussion: "See docs/BENCHMARKS.md for what each benchmark measures, and how to read it.",
        subcommands: [
            ContentionCommand.self, ReadCommand.self, WriteCommand.self, OpenCommand.self, HistoryCommand.self,
            DerivedTablesCommand.self, EncryptionCommand.self,
            NotifyCommand.self, ObserveCommand.self, ParticipantCommand.self, ReceiverCommand.self,
            CommitTailCommand.self, WALSizeCommand.self, WALSizeParticipantCommand.self, SharingCommand.self,
            SharingPeerCommand.self, FootprintCommand.self, ReadersCommand.self, JobsCommand.self,
            JobsPeerCommand.self,
        ] + linuxCommands
    )

    /// The police works on Linux only, and only Linux tells what memory a process shares.
    private static var linuxCommands: [any ParsableCommand.Type] {
        #if os(Linux)
            [
                SuspensionCommand.self, SuspensionProgramCommand.self, SharingProgramCommand.self, MemoryCommand.self,
            ]
        #else
            []
        #endif
    }
}

@main
enum Main {
    /// A receiver is no task: on Linux, Dispatch's pool of threads, on which tasks run, wakes every second once it was used.
    @MainActor static func main() async {
        guard CommandLine.arguments.dropFirst().first == ReceiverCommand.configuration.commandName else {
            return await Bench.main()
        }
        ReceiverCommand.main(Array(CommandLine.arguments.dropFirst(2)))
        // The main queue goes on serving.
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
    }
}

/// Where the databases go, and how the figures come out.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print one JSON object instead of a table.")
    var json = false

    @Option(help: "The folder for the databases. A temporary one inside it is made, and removed.")
    var directory: String?

    /// Runs `body` with an empty folder, which is removed afterwards.
    func withFolder<T>(_ body: (URL) async throws -> T) async throws -> T {
        let parent = directory.map { URL(fileURLWithPath: $0) } ?? FileManager.default.temporaryDirectory
        let folder = parent.appendingPathComponent("roundtable-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        return try await body(folder)
    }
}

/// What all benchmarks understand.
struct CommonOptions: ParsableArguments {
    @Option(help: "How long each side is measured, in seconds.")
    var seconds: Double?

    @OptionGroup var output: OutputOptions

    @Option(name: .customLong("side"), help: "Measure this side; repeat it for more. For profilers. (default: all)")
    var chosenSides: [Side] = []

    /// Ours first.
    var sides: [Side] { Side.allCases.filter { chosenSides.isEmpty || chosenSides.contains($0) } }

    func validate() throws {
        if let seconds, !(seconds > 0 && seconds <= 3600) {
            throw ValidationError("--seconds must be more than 0, and at most 3600.")
        }
    }

    func withFolder<T>(_ body: (URL) async throws -> T) async throws -> T { try await output.withFolder(body) }

    func print(_ report: Report) throws {
        Swift.print(output.json ? try report.json() : report.table())
    }
}
