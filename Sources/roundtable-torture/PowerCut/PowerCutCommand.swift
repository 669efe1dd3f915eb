import ArgumentParser
import Foundation
import Roundtable
import RoundtableTestSupport

extension IgnoredSyncs: ExpressibleByArgument {}

/// Which `PRAGMA synchronous` the participants use.
private enum Synchronous: String, CaseIterable, ExpressibleByArgument {
    case normal, full

    var durability: Durability { self == .full ? .machine : .process }
}

struct PowerCutCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "powercut",
        abstract: "Checks what power cuts leave of a database, an outbox and snapshot files.",
        discussion: """
            Records the writes and syncs of processes at work, and replays every prefix of them with pending writes dropped, reordered \
            and torn. Ends with 1 if something acknowledged is lost, or something is corrupt.
            """
    )

    @Option(help: "PRAGMA synchronous of the writers.") private var durability = Synchronous.full
    @Option(help: "How many different states are checked.") var states = 5000
    @Option(help: "The seed of all choices; a new one by default.") var seed: UInt64?
    @Option(help: "Forget these syncs, to see that the check notices.") var ignoreSync = IgnoredSyncs.none
    @Option(help: "Of how many states one is opened by the library, too.") var libraryEvery = 20
    @Option(help: "End after so many seconds, whatever was reached.") var seconds: Int?
    @Option(help: "How many threads replay.") var threads = 2
    @Option(help: "The folder for traces that show a defect.") var keep: String?
    @Option(help: "A trace that was kept.") var trace: String?
    @Option(help: "The only state to check, of that trace.") var only: String?
    @Flag(help: "Print the report as JSON.") var json = false

    func validate() throws {
        guard states > 0, libraryEvery > 0, (1...64).contains(threads) else {
            throw ValidationError("--states, --library-every and --threads are at least 1")
        }
        guard (trace == nil) == (only == nil), trace == nil || seed != nil else {
            throw ValidationError("--trace, --only and --seed belong together")
        }
        if let only, CrashState.Name(only) == nil { throw ValidationError("--only is EVENT.VARIANT, such as 120.3") }
    }

    func run() throws {
        var campaign = PowerCutCampaign(
            durability: durability.durability,
            states: states,
            seed: seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
        )
        campaign.ignored = ignoreSync
        campaign.libraryEvery = libraryEvery
        campaign.threads = threads
        campaign.deadline = seconds.map { .now + .seconds($0) }
        campaign.keptTraces = keep.map { URL(fileURLWithPath: $0, isDirectory: true) }
        if let trace, let only, let name = CrashState.Name(only) {
            let recorded = try RecordedTrace(contentsOf: URL(fileURLWithPath: trace))
            let (powerCut, finding) = try campaign.replay(name, of: recorded, campaign.seed)
            print(powerCut)
            print(finding.map { "FAILED \($0.kind.rawValue): \($0.text)" } ?? "ok")
            if finding != nil { throw ExitCode.failure }
            return
        }
        let report = try campaign.run()
        if json {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            print(String(decoding: try encoder.encode(report), as: UTF8.self))
        } else {
            print(report.text(program: CommandLine.arguments[0]))
        }
        if !report.counts.isEmpty { throw ExitCode.failure }
    }
}
