import Foundation
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// Short campaigns of `roundtable-torture random`. `make soak` and `make torture-random` run long ones.
    @Suite struct RandomFaults {
        /// Kills and other faults at random moments lose nothing, damage nothing, and stop no process (rules G1, G3, T8, P3).
        @Test(.timeLimit(.minutes(5)))
        func campaign() throws {
            let (exit, report) = try run(minutes: isLongRun ? 2 : 0.15)
            #expect(exit == .status(0), "\(report)")
            #expect(report["isComplete"] as? Bool == true)
            #expect(report["problems"] as? [String] == [])
            // Without these, nothing was killed at work, and nothing was checked.
            #expect(report["killedAtWork"] as? Int ?? 0 > 3)
            for figure in ["acknowledged", "sharedWrites", "commandsApplied", "historyChanges", "checks"] {
                #expect(report[figure] as? Int ?? 0 > 1, "\(figure)")
            }
        }

        /// A campaign whose processes have a defect finds it.
        @Test(
            .timeLimit(.minutes(5)),
            arguments: [
                (CampaignWork.Defect.acknowledgesEarly, "lost: "), (.commitsTwice, "anomaly: "),
                (.skipsChanges, "history: "),
                (.appliesTwice, "outbox: "),
            ]
        )
        func defect(_ defect: CampaignWork.Defect, finding: String) throws {
            let (exit, report) = try run(minutes: 3, defect: defect)
            #expect(exit == .status(1))
            let problems = report["problems"] as? [String] ?? []
            #expect(problems.contains { $0.contains(finding) }, "\(problems)")
        }

        private func run(
            minutes: Double,
            defect: CampaignWork.Defect? = nil
        ) throws -> (ProgramExit, [String: Any]) {
            var random = SeededGenerator()
            return try PeerFleet.run { fleet in
                let path = fleet.folder.appendingPathComponent("report.json").path
                let seed = "\(random.next())"
                var arguments = ["random", "--minutes", "\(minutes)", "--seed", seed, "--report", path, "--in-memory"]
                if let defect { arguments += ["--defect", defect.rawValue] }
                let campaign = try fleet.spawn(
                    program: try PeerFleet.program(named: "roundtable-torture"),
                    arguments: arguments
                )
                let exit = try campaign.waitForExit(within: .seconds(280))
                let data = try Data(contentsOf: URL(fileURLWithPath: path))
                return (exit, try JSONSerialization.jsonObject(with: data) as? [String: Any] ?? [:])
            }
        }
    }
}
