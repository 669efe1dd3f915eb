import ArgumentParser
import Foundation
import Roundtable
import RoundtableTestSupport

extension IgnoredSyncs: ExpressibleByArgument {}

/// Which `PRAGMA synchronous` the participants use.
private enum Synchronous: String, CaseIterable, ExpressibleByArgument {
    case normal, full

    var durability: CommitDurability { self == .full ? .machine : .process }
}

/// What the power cuts are of.
private enum FileSystem: String, CaseIterable, ExpressibleByArgument {
    /// What recorded writes and syncs allow.
    case replayed
    case ext4
}

struct PowerCutCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "powercut",
        abstract: "Checks what power cuts leave of a database, an outbox and snapshot files.",
        discussion: """
            Records the writes and syncs of processes at work, and replays every prefix of them with pending writes dropped, reordered \
            and torn. With --filesystem ext4, cuts the power of a real file system instead, which needs root and loop devices; where the \
            machine does not allow that, it ends with \(Self.refused). Ends with 1 if something acknowledged is lost, or something is corrupt.
            """
    )

    /// The exit status where the machine does not allow the campaign, as of skipped tests of automake.
    static let refused: Int32 = 77

    @Option(help: "PRAGMA synchronous of the writers.") private var durability = Synchronous.full
    @Option(help: "What the power cuts are of.") private var filesystem = FileSystem.replayed
    @Option(help: "With ext4: how many power cuts. 0 only looks whether the machine allows them.") var cuts = 100
    @Option(help: "How many different states are checked.") var states = 5000
    @Option(help: "With ext4: end after so many defects.") var failures = 20
    @Option(help: "The seed of all choices, decimal or with 0x; a new one by default.") var seed: Seed?
    @Option(help: "Forget these syncs, to see that the check notices.") var ignoreSync = IgnoredSyncs.none
    @Option(help: "Of how many states one is opened by the library, too.") var libraryEvery = 20
    @Option(help: "End after so many seconds, whatever was reached.") var seconds: Int?
    @Option(help: "How many threads replay; with ext4: how many file systems at the same time.") var threads = 2
    @Option(help: "The folder for traces, or files, that show a defect.") var keep: String?
    @Option(help: "A trace that was kept.") var trace: String?
    @Option(help: "The only state to check, of that trace.") var only: String?
    @Flag(help: "Print the report as JSON.") var json = false

    func validate() throws {
        guard cuts >= 0, failures > 0, states > 0, libraryEvery > 0, (1...64).contains(threads) else {
            throw ValidationError(
                "--states, --library-every, --threads and --failures are at least 1, and --cuts at least 0"
            )
        }
        guard (trace == nil) == (only == nil), trace == nil || seed != nil else {
            throw ValidationError("--trace, --only and --seed belong together")
        }
        if let only, CrashState.Name(only) == nil { throw ValidationError("--only is EVENT.VARIANT, such as 120.3") }
    }

    func run() throws {
        switch filesystem {
        case .replayed: try replay()
        case .ext4: try cutExt4()
        }
    }

    private func cutExt4() throws {
        #if os(Linux)
            var campaign = Ext4Campaign(
                durability: durability.durability,
                cuts: cuts,
                seed: seed?.value ?? .random(in: 0...UInt64(UInt32.max))
            )
            campaign.forgotten = ignoreSync
            campaign.failures = failures
            campaign.threads = threads
            campaign.deadline = seconds.map { .now + .seconds($0) }
            campaign.kept = keep.map { URL(fileURLWithPath: $0, isDirectory: true) }
            do {
                let report = try campaign.run()
                if cuts == 0 { return print("this machine allows power cuts of ext4") }
                try show(report, report.text(program: CommandLine.arguments[0]))
                if report.hasCutNothing { throw TestKitError("the power cuts dropped nothing, so they were none") }
                if !report.counts.isEmpty { throw ExitCode.failure }
            } catch let refusal as Ext4Machine.Refusal {
                FileHandle.standardError.write(Data("\(refusal)\n".utf8))
                throw ExitCode(Self.refused)
            }
        #else
            throw ValidationError("only Linux has ext4")
        #endif
    }

    private func show(_ report: some Encodable, _ text: String) throws {
        guard json else { return print(text) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        print(String(decoding: try encoder.encode(report), as: UTF8.self))
    }

    private func replay() throws {
        var campaign = PowerCutCampaign(
            durability: durability.durability,
            states: states,
            seed: seed?.value ?? .random(in: 0...UInt64(UInt32.max))
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
        try show(report, report.text(program: CommandLine.arguments[0]))
        if !report.counts.isEmpty { throw ExitCode.failure }
    }
}
