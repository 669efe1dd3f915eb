#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import RoundtableTestSupport
    import Testing

    @testable import RoundtableTool
    @testable import RoundtableReplication
    @testable import RoundtableToolSupport

    extension ProcessTests {
        /// The checks of `roundtable-torture sweep` fail where they must: at a peer that is wrong on purpose. And only there.
        @Suite struct Sweep {
            struct Case: CustomStringConvertible, Sendable {
                var defect: SweepDefect?
                /// A part of what must be reported; nil when nothing may be.
                var complaint: String?
                /// One point; nil for a sample of those of a write.
                var only: String?
                var description: String { defect?.rawValue ?? "none" }
            }

            static let cases = [
                Case(),
                Case(defect: .acknowledgesEarly, complaint: "lost: transaction 2"),
                Case(defect: .hidesErrors, complaint: "lost: transaction 2"),
                Case(defect: .traps, complaint: "the process ended"),
                Case(defect: .littersFolder, complaint: "an unfinished file is left"),
                Case(
                    defect: .hangs,
                    complaint: "stuck: no answer within 4.0 seconds",
                    only: "write.alone.calls.0.pwrite.once-EIO"
                ),
                // SQLite repeats a call that a signal has interrupted, so that these operations succeed.
                Case(
                    defect: .missesNotifications,
                    complaint: "silent: the observations notify",
                    only: "observe.alone.calls.0.pwrite.once-EINTR"
                ),
                Case(
                    defect: .skipsRows,
                    complaint: "another process: boxes: ",
                    only: "buildDerivedTable.alone.calls.0.pwrite.once-EINTR"
                ),
                Case(
                    defect: .prunesTooMuch,
                    complaint: "another process: history [",
                    only: "prune.alone.calls.0.pwrite.once-EINTR"
                ),
            ]

            /// A sample of the points, or one, because all of them take a minute for each case.
            @Test(.long(oneIn: 32), .serialized, .timeLimit(.minutes(3)), arguments: cases)
            func finds(_ one: Case) throws {
                var arguments = ["sweep", "--json", "--seed", "1"]
                if let only = one.only {
                    arguments += ["--only", only]
                } else {
                    // A number, because a slow machine takes few points in a time, and no kill may be among them.
                    arguments += ["--operation", "write", "--alone", "--sample", "6"]
                }
                if one.defect == .hangs { arguments += ["--patience", "4"] }
                if let defect = one.defect { arguments += ["--defect", defect.rawValue] }
                let (output, problems, counts) = try sweep(arguments)
                // A sweep that kills no process and lets nothing fail finds nothing either.
                #expect(counts["errorsTaken"] as? Int ?? 0 > (one.only == nil ? 2 : 0), "\(counts)")
                if one.only == nil { #expect(counts["killsTaken"] as? Int ?? 0 > 0, "\(counts)") }
                if let complaint = one.complaint {
                    #expect(problems.contains { $0.contains(complaint) }, "\(problems)")
                    #expect(output.exit == .status(1))
                    #expect(
                        output.standardError.contains(
                            "roundtable-torture sweep --only \(one.only ?? "write.alone.")"
                        )
                    )
                } else {
                    #expect(problems.isEmpty, "\(output.standardError)")
                    #expect(output.exit == .status(0))
                }
            }

            /// W9b: when the system refuses once to open a file for writing, SQLite opens it for reading only. The participant must write again.
            @Test(.timeLimit(.minutes(3))) func aFileThatWasRefusedOnceIsOpenedAgain() throws {
                let arguments = ["sweep", "--operation", "resume", "--call", "open", "--action", "once", "--json"]
                let (output, problems, counts) = try sweep(arguments)
                #expect(problems.isEmpty, "\(output.standardError)")
                // The database, its WAL and its wal-index, each with every error.
                #expect(counts["failed"] as? Int ?? 0 >= 3 * 8, "\(counts)")
            }

            private func sweep(_ arguments: [String]) throws -> (ProgramOutput, [String], [String: Any]) {
                let run = try ProgramRun(
                    ProgramLaunch(try PeerFleet.program(named: "roundtable-torture").path, arguments)
                )
                let output = try #require(try run.wait(upTo: 150_000), "it does not end")
                let json = try JSONSerialization.jsonObject(with: Data(output.standardOutput.utf8)) as? [String: Any]
                let report = try #require(json, "\(output.standardError)")
                let failures = try #require(report["failures"] as? [[String: Any]])
                let problems = failures.flatMap { $0["problems"] as? [String] ?? [] }
                return (output, problems, try #require((report["operations"] as? [[String: Any]])?.first))
            }
        }
    }
#endif
