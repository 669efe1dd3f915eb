#if os(Linux)
    import ArgumentParser
    import Foundation
    import Roundtable
    import RoundtableTestKit

    struct SuspensionCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "suspension",
            abstract: "Processes write without pause, and are frozen at random moments by the suspension police.",
            discussion: """
                Who holds a lock then that iOS kills for is killed, and started anew. Afterwards the rows are counted that were \
                acknowledged. Contestants take turns, in rounds, each with a new database.
                """
        )

        @OptionGroup var output: OutputOptions

        @Option(help: "How often each contestant is frozen.")
        var freezes = 2000

        @Option(help: "How long before the freeze the notice is given, in milliseconds; 0 for right before.")
        var notice = 50

        @Flag(help: "No notice at all.")
        var noNotice = false

        @Option(help: "How long each transaction computes between two statements, in milliseconds.")
        var computing = 0.0

        @Option(help: "How many rows a transaction inserts, 2 to \(Ledger.stride).")
        var rows = 3

        @Option(help: "Whether programs ask for assertions, and get them: off, on, refused.")
        var assertions = AssertionSupply.off

        @Option(help: "What is forbidden: documented, strict.")
        var law = Law.documented

        @Option(help: "What ours lets go of: writeLocks, everything.")
        var policy = SuspensionPolicy.writeLocks

        @Flag(help: "Ours waits at a closed gate, instead of failing and trying again once it is resumed.")
        var waits = false

        @Option(help: "What else goes on in ours, and in GRDB where it has the like; repeat it for more.")
        var activity: [SuspensionActivity] = []

        @Option(help: "Put this contestant before the police; repeat it for more. (default: all)")
        var contestant: [SuspensionContestant] = []

        @Option(help: "How many freezes a round has.")
        var round = 100

        @Option(help: "Of the random moments.")
        var seed = UInt64.random(in: 0...UInt64.max)

        @Flag(
            help: "Ours and GRDB with notifications, at closures of 5 ms, 200 ms and 5 s, notices of 0, 50 and 500 ms."
        )
        var table = false

        @Option(help: "With --table: how many freezes those closures have that compute for 5 s.")
        var longFreezes = 10

        enum Law: String, CaseIterable, ExpressibleByArgument {
            case documented, strict

            var law: SuspensionLaw { self == .documented ? .documented : .strict }
        }

        func validate() throws {
            guard freezes > 0, round > 0, longFreezes > 0 else {
                throw ValidationError("--freezes, --round and --long-freezes must be more than 0.")
            }
            guard (2...Ledger.stride).contains(rows) else {
                throw ValidationError("--rows must be 2 to \(Ledger.stride).")
            }
            guard computing >= 0, notice >= 0 else {
                throw ValidationError("--computing and --notice must not be negative.")
            }
        }

        func run() async throws {
            let load = OtherLoad()
            let report = try await output.withFolder { folder in
                var contest = SuspensionContest(base, folder: folder, seed: seed, round: round)
                contest.law = law.law
                if table {
                    return FreezingReport(try contest.table(freezes: freezes, longFreezes: longFreezes), load)
                }
                var cells: [SuspensionCell] = []
                for activity in activity.isEmpty ? [nil] : activity.map(Optional.some) {
                    var cell = cell
                    cell.activity = activity
                    cells.append(try contest.run(cell))
                }
                return FreezingReport(cells, load)
            }
            let text =
                table ? report.closures(seed: seed) : report.markdown(seed: seed, law: law.rawValue, policy: policy)
            print(output.json ? try report.json() : text)
        }

        private var base: SuspensionTask {
            var task = SuspensionTask(folder: "")
            task.policy = policy
            task.waits = waits
            return task
        }

        private var cell: SuspensionCell {
            SuspensionCell(
                contestants: contestant.isEmpty ? SuspensionContestant.allCases : contestant,
                freezes: freezes,
                notice: noNotice ? nil : notice,
                computing: computing,
                assertions: assertions,
                rows: rows
            )
        }
    }

    extension SuspensionPolicy: @retroactive ExpressibleByArgument {}
#endif
