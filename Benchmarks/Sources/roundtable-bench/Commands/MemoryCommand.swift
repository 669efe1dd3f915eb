#if os(Linux)
    import ArgumentParser
    import Foundation

    /// What a process costs that has a database open.
    struct MemoryCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "memory",
            abstract: "The memory of processes that share a database and idle: of one, and of many at the same time.",
            discussion: """
                The programs are those of `footprint`, which measures what they cost without a database. Beside those that are measured, one more \
                process, which is not, has the database open, as an app has. Memory that n processes share counts as an n-th of it in each (pss).
                """
        )

        @OptionGroup var output: OutputOptions

        @Option(help: "The most processes, 1 to 250: 1, 100 and 250 up to this, and this.")
        var processes = 250

        @Option(help: "How often each is measured.")
        var rounds = 3

        func validate() throws {
            guard (1...250).contains(processes) else { throw ValidationError("--processes must be 1 to 250.") }
            guard (1...100).contains(rounds) else { throw ValidationError("--rounds must be 1 to 100.") }
        }

        func run() async throws {
            Interruption.arm()
            let load = OtherLoad()
            let counts = [1, 100, 250].filter { $0 < processes } + [processes]
            let programs = IdleProgram.allCases
            let report = try await output.withFolder { folder in
                let measured = try await Interleaving.run(counts, programs, rounds: rounds) { count, program in
                    try program.measure(count, in: folder)
                }
                return MemoryReport(
                    rows: counts.flatMap { count in
                        programs.map { MemoryReport.Row($0, processes: count, rounds: measured[count]![$0]!) }
                    },
                    rounds: rounds,
                    machine: Report.Machine(load)
                )
            }
            print(output.json ? try report.json() : report.table())
        }
    }
#endif
