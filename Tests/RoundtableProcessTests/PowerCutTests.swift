#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import RoundtableTestSupport
    import Testing

    /// Runs `roundtable-torture powercut`, and decodes its report.
    private func powerCuts<Report: Decodable>(_ arguments: [String]) throws -> (exit: ProgramExit, report: Report) {
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

    /// What `roundtable-torture powercut` must notice. Each test forgets one kind of sync in the replayed power cuts.
    @Suite(.serialized, .timeLimit(.minutes(5)))
    struct PowerCuts {
        private struct Report: Decodable {
            var counts: [String: Int]
            var distinctStates: Int
            var openedByLibrary: Int
        }

        private func run(_ arguments: [String]) throws -> (exit: ProgramExit, report: Report) {
            try powerCuts(arguments)
        }

        /// Nothing acknowledged is lost, and nothing is corrupt.
        @Test(.long(), arguments: ["full", "normal"])
        func nothingIsLost(durability: String) throws {
            let (exit, report) = try run(["--durability", durability, "--states", "200", "--library-every", "40"])
            #expect(exit == .status(0))
            #expect(report.counts.isEmpty)
            #expect(report.distinctStates >= 200 && report.openedByLibrary > 0)
        }

        /// A sync that is forgotten is noticed, by the defect that it causes.
        @Test(
            .long(),
            arguments: [
                ("full", "wal", ["lostCommit"]), ("normal", "database", ["corrupt", "lostCommit"]),
                ("normal", "snapshot", ["damagedSnapshot"]), ("full", "outbox", ["lostCommand"]),
                ("full", "folder", ["lostCommit", "lostCommand", "lostSnapshot"]),
            ]
        )
        func forgottenSyncIsNoticed(durability: String, sync: String, defects: [String]) throws {
            let arguments = ["--durability", durability, "--states", "1500", "--ignore-sync", sync]
            let (exit, report) = try run(arguments + ["--library-every", "100000"])
            #expect(exit == .status(1))
            #expect(defects.contains { report.counts[$0] ?? 0 > 0 }, "\(report)")
        }
    }

    /// Whether the machine allows power cuts of ext4. If not, the reason is printed.
    private let allowsPowerCutsOfExt4: Bool = {
        do {
            return try PeerFleet.run(inMemory: true) { fleet in
                let program = try PeerFleet.program(named: "roundtable-torture")
                let process = try fleet.spawn(
                    program: program,
                    arguments: ["powercut", "--filesystem", "ext4", "--cuts", "0"]
                )
                let exit = try process.waitForExit(within: .seconds(60))
                if exit == .status(77) { print("PowerCutsOfExt4 is skipped: \(process.errorText)") }
                return exit != .status(77)
            }
        } catch {
            // The tests then fail by the same error.
            return true
        }
    }()

    /// Power cuts of an ext4 image on a loop device, while processes write: what was acknowledged is there when it is mounted again.
    @Suite(
        .serialized,
        .timeLimit(.minutes(5)),
        .enabled(if: allowsPowerCutsOfExt4, "the machine does not allow power cuts of ext4")
    )
    struct PowerCutsOfExt4 {
        private struct Report: Decodable {
            var counts: [String: Int]
            var cuts: Int
            var acknowledgedCommits: Int
        }

        @Test(arguments: ["full", "normal"])
        func nothingIsLost(durability: String) throws {
            let arguments = ["--filesystem", "ext4", "--durability", durability, "--cuts", "3"]
            let (exit, report): (_, Report) = try powerCuts(arguments)
            #expect(exit == .status(0))
            #expect(report.counts.isEmpty)
            #expect(report.cuts == 3 && report.acknowledgedCommits > 0)
        }

        /// Without the WAL's syncs, power cuts lose acknowledged commits.
        @Test func forgottenSyncIsNoticed() throws {
            let arguments = ["--filesystem", "ext4", "--cuts", "60", "--failures", "1", "--ignore-sync", "wal"]
            let (exit, report): (_, Report) = try powerCuts(arguments)
            #expect(exit == .status(1))
            #expect(["lostCommit", "corrupt"].contains { report.counts[$0] ?? 0 > 0 }, "\(report)")
        }
    }
#endif
