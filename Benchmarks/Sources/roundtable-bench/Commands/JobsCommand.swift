import ArgumentParser
import Foundation

/// A table of jobs, beside one that is written by hand.
struct JobsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "jobs",
        abstract: "How fast processes work on a table of jobs, each of which writes one row.",
        discussion: """
            Beside a table on GRDB that has neither leases nor retries. The time is from the moment when all processes have opened the database until the \
            last one has found the table empty.
            """
    )

    @OptionGroup var output: OutputOptions
    @Option(help: "The number of jobs.") var jobs = 5_000
    @Option(help: "How often each side is measured.") var rounds = 5
    @Option(name: .customLong("processes"), help: "The number of processes; repeat it for more. (default: 1, 4, 8)")
    var chosenProcesses: [Int] = []

    func validate() throws {
        guard jobs > 0, rounds > 0, chosenProcesses.allSatisfy({ $0 > 0 }) else {
            throw ValidationError("The numbers must be at least 1.")
        }
    }

    private struct Trial {
        var added: Double
        var done: Double
        var mostByLeast: Double
    }

    private struct WrongResult: Error, CustomStringConvertible {
        let description: String
    }

    func run() async throws {
        let load = OtherLoad()
        let processes = chosenProcesses.isEmpty ? [1, 4, 8] : chosenProcesses
        let report = try await output.withFolder { folder in
            let trials = try await Interleaving.run(processes, JobsSide.allCases, rounds: rounds) { processes, side in
                try trial(side, processes: processes, in: folder)
            }
            return JobsReport(
                jobs: jobs,
                rounds: rounds,
                rows: processes.flatMap { number in
                    JobsSide.allCases.map { side in
                        let trials = trials[number]![side]!
                        return JobsReport.Row(
                            processes: number,
                            side: side.rawValue,
                            addedPerSecond: trials.map(\.added).median,
                            donePerSecond: trials.map(\.done).median,
                            mostByLeast: trials.map(\.mostByLeast).median
                        )
                    }
                },
                ratios: processes.map { number in
                    zip(trials[number]![.ours]!, trials[number]![.grdb]!).map { $0.done / $1.done }.median
                },
                machine: Report.Machine(load)
            )
        }
        print(output.json ? try report.json() : report.table())
    }

    private func trial(_ side: JobsSide, processes count: Int, in parent: URL) throws -> Trial {
        let folder = parent.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("jobs.sqlite").path
        let added = try side.create(path, jobs: jobs)
        let peer = String(
            decoding: try JSONEncoder().encode(JobsPeer(side: side, path: path, handlers: 4)),
            as: UTF8.self
        )
        var processes: [ParticipantProcess] = []
        defer { for process in processes { process.end() } }
        for number in 0..<count {
            processes.append(try ParticipantProcess(["jobs-peer", peer], name: "worker \(number)", in: folder))
        }
        for process in processes { try process.waitUntilReady() }
        let began = Clock.now
        for process in processes { process.closeInput() }
        let results = try processes.map { try $0.result(JobsPeer.Result.self, within: 300) }
        let ended = results.map(\.ended).max() ?? began
        let effects = try side.effects(path)
        guard effects.all == jobs, effects.distinct == jobs else {
            throw WrongResult(description: "\(side): \(effects.all) effects of \(effects.distinct) of \(jobs) jobs")
        }
        let done = results.map(\.jobs)
        return Trial(
            added: added,
            done: Double(jobs) / (ended - began).seconds,
            mostByLeast: Double(done.max() ?? 0) / Double(max(1, done.min() ?? 0))
        )
    }
}

/// A worker process of `jobs`. Started by `JobsCommand`.
struct JobsPeerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "jobs-peer", shouldDisplay: false)

    @Argument var peer: String

    func run() async throws {
        let result = try await JSONDecoder().decode(JobsPeer.self, from: Data(peer.utf8)).run()
        print(String(decoding: try JSONEncoder().encode(result), as: UTF8.self))
    }
}
