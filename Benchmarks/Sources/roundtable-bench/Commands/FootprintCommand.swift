import ArgumentParser
import Foundation
import RoundtableFiles

/// What a program costs before it does anything.
struct FootprintCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "footprint",
        abstract: "The size, memory and run time of a small program that reads one value from a file.",
        discussion: """
            Linked with Foundation alone, with RoundtableFiles, with GRDB, and with all of Roundtable. None of them opens a database. Sizes are those of \
            the executables without symbols; what they share, such as Foundation's library, is not counted unless it is linked into them.
            """
    )

    @OptionGroup var output: OutputOptions

    @Option(help: "How often each program is run.")
    var rounds = 100

    func validate() throws {
        guard rounds >= 3 else { throw ValidationError("--rounds must be at least 3.") }
    }

    private struct Score: Codable {
        var points: Int
    }

    func run() async throws {
        let load = OtherLoad()
        let report = try await output.withFolder { folder in
            let plain = folder.appendingPathComponent("plain").path
            let snapshot = folder.appendingPathComponent("snapshot")
            try JSONEncoder().encode(Score(points: 42)).write(to: URL(fileURLWithPath: plain))
            try await SnapshotFile<Score>(at: snapshot, as: "app").write(Score(points: 42))
            func file(of program: FootprintProgram) -> String {
                switch program {
                case .nothing, .grdb: plain
                case .files, .roundtable: snapshot.path
                }
            }
            let programs = FootprintProgram.allCases
            // The first run fills caches, and does not count.
            for program in programs { _ = try program.time(reading: file(of: program)) }
            let times = try await Interleaving.run(programs, rounds: rounds) { try $0.time(reading: file(of: $0)) }
            let rows = try programs.map { program in
                FootprintReport.Row(
                    program: program.title,
                    strippedSize: try program.strippedSize(in: folder),
                    residentMemory: try (0..<5).map { _ in
                        Double(try program.residentMemory(reading: file(of: program)))
                    }.median,
                    milliseconds: times[program]!.median * 1e3
                )
            }
            return FootprintReport(rows: rows, rounds: rounds, machine: Report.Machine(load))
        }
        print(output.json ? try report.json() : report.table())
    }
}
