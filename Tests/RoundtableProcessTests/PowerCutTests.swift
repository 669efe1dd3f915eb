#if os(Linux)
    import Foundation
    import RoundtableTestSupport
    import Testing

    /// What `roundtable-torture powercut` must notice. Each test forgets one kind of sync in the replayed power cuts.
    @Suite(.serialized, .timeLimit(.minutes(5)))
    struct PowerCuts {
        private struct Report: Decodable {
            var counts: [String: Int]
            var distinctStates: Int
            var openedByLibrary: Int
        }

        private func run(_ arguments: [String]) throws -> (exit: ProgramExit, report: Report) {
            try PeerFleet.run(inMemory: true) { fleet in
                let output = fleet.folder.appendingPathComponent("report.json")
                let program = try PeerFleet.program(named: "roundtable-torture").path
                let all = ["powercut", "--json", "--seed", "3", "--seconds", "100"] + arguments
                let process = try fleet.spawn(
                    program: URL(fileURLWithPath: "/bin/sh"),
                    arguments: ["-c", "exec \"$0\" \"$@\" > '\(output.path)'", program] + all
                )
                let exit = try process.waitForExit(within: .seconds(240))
                let data = try Data(contentsOf: output)
                guard !data.isEmpty else { throw TestKitError("\(exit): \(process.errorText)") }
                return (exit, try JSONDecoder().decode(Report.self, from: data))
            }
        }

        /// Nothing acknowledged is lost, and nothing is corrupt.
        @Test(arguments: ["full", "normal"])
        func nothingIsLost(durability: String) throws {
            let (exit, report) = try run(["--durability", durability, "--states", "200", "--library-every", "40"])
            #expect(exit == .status(0))
            #expect(report.counts.isEmpty)
            #expect(report.distinctStates >= 200 && report.openedByLibrary > 0)
        }

        /// A sync that is forgotten is noticed, by the defect that it causes.
        @Test(arguments: [
            ("full", "wal", ["lostCommit"]), ("normal", "database", ["corrupt", "lostCommit"]),
            ("normal", "snapshot", ["damagedSnapshot"]), ("full", "outbox", ["lostCommand"]),
            ("full", "folder", ["lostCommit", "lostCommand", "lostSnapshot"]),
        ])
        func forgottenSyncIsNoticed(durability: String, sync: String, defects: [String]) throws {
            let arguments = ["--durability", durability, "--states", "1500", "--ignore-sync", sync]
            let (exit, report) = try run(arguments + ["--library-every", "100000"])
            #expect(exit == .status(1))
            #expect(defects.contains { report.counts[$0] ?? 0 > 0 }, "\(report)")
        }
    }
#endif
