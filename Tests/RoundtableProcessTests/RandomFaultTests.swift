import Foundation
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// Short campaigns of `roundtable-torture random`. `make soak` and `make torture-random` run long ones.
    @Suite struct RandomFaults {
        /// Kills and other faults at random moments lose nothing, damage nothing, and stop no process (rules G1, G3, T8, P3).
        @Test(.long(), .timeLimit(.minutes(5)))
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
            .long(oneIn: 32),
            .timeLimit(.minutes(5)),
            arguments: [
                (CampaignWork.Defect.acknowledgesEarly, "lost: "), (.commitsTwice, "anomaly: "),
                (.skipsChanges, "history: "),
                (.appliesTwice, "outbox: "),
                (.dropsDerivedTableTriggers, "corrupt: derived table "),
            ]
        )
        func defect(_ defect: CampaignWork.Defect, finding: String) throws {
            try expect(finding, minutes: 3, defect, ["--check-interval", "1"])
        }

        /// What a process holds that it should not is found at the end. The two that are never killed have the defect.
        @Test(
            .long(oneIn: 32),
            .timeLimit(.minutes(5)),
            arguments: [
                (CampaignWork.Defect.leaksThreads, ": threads grew from"), (.leaksMemory, ": memory (KiB) grew from"),
                (.leaksDescriptors, ": descriptors grew from"),
            ]
        )
        func leak(_ defect: CampaignWork.Defect, finding: String) throws {
            let options = ["--check-interval", "0.4", "--stuck-after", "4", "--processes", "4", "--interval", "200"]
            try expect("leak: ", finding, minutes: 0.2, defect, options)
        }

        /// A slot that stays occupied is found at the check that sees it for too long. The living free it, and the defect occupies it again:
        /// a check between the two restarts the time.
        @Test(.long(), .timeLimit(.minutes(5))) func deadParticipantStays() throws {
            let options = ["--check-interval", "0.4", "--stuck-after", "4", "--processes", "4", "--interval", "200"]
            let finding = "a slot of a dead process stayed occupied for"
            try expect("leak: ", finding, minutes: 3, .entersDeadParticipants, options)
        }

        /// A transaction that does not end stops the others. The report names its participant. The names of participants are in the control
        /// block, so this campaign does not damage it: a participant joins a new one only between its transactions.
        @Test(.long(), .timeLimit(.minutes(5))) func holdsForever() throws {
            let damages = ["controlBlockDeleted", "controlBlockEmptied", "controlBlockHalved", "controlBlockNoise"]
            let options = ["--stuck-after", "4", "--processes", "4", "--interval", "200"]
            try expect(
                "stuck: ",
                "the write lock is held by 'peer-1' (pid ",
                minutes: 3,
                .holdsForever,
                options + damages.flatMap { ["--without", $0] }
            )
        }

        private func expect(
            _ findings: String...,
            minutes: Double,
            _ defect: CampaignWork.Defect,
            _ options: [String]
        ) throws {
            let (exit, report) = try run(minutes: minutes, defect: defect, options)
            #expect(exit == .status(1))
            let problems = report["problems"] as? [String] ?? []
            #expect(problems.contains { problem in findings.allSatisfy(problem.contains) }, "\(problems)")
        }

        /// A disk that is full at times loses nothing that was acknowledged, and all continue when there is space (rule G1). Mounts end with the
        /// namespace in which the campaign runs.
        @Test(
            .long(oneIn: 32),
            .timeLimit(.minutes(5)),
            .enabled(if: SmallVolume.isSupported, "mounting a tmpfs needs the superuser"),
            arguments: [CampaignWork.Defect?.none, .acknowledgesOnFullDisk, .givesUpOnFullDisk]
        )
        func fullDisk(_ defect: CampaignWork.Defect?) throws {
            var options = ["--full-disk", "--processes", "6", "--interval", "60", "--check-interval", "1"]
            if defect != nil { options += ["--stuck-after", "6"] }
            let minutes = defect != nil ? 3 : isLongRun ? 2 : 0.15
            let (exit, report) = try run(minutes: minutes, defect: defect, options, isolated: true)
            let problems = report["problems"] as? [String] ?? []
            switch defect {
            case .acknowledgesOnFullDisk:
                // A writer that is killed has lost its last transaction; one that continues has left a hole.
                #expect(problems.contains { $0.contains("lost: ") || $0.contains(": transaction ") }, "\(problems)")
            case .givesUpOnFullDisk:
                #expect(problems.contains { $0.contains("stuck: writer ") }, "\(problems)")
            default:
                #expect(exit == .status(0), "\(report)")
                #expect(report["diskErrors"] as? Int ?? 0 > 0, "\(report)")
            }
        }

        private func run(
            minutes: Double,
            defect: CampaignWork.Defect? = nil,
            _ options: [String] = [],
            isolated: Bool = false
        ) throws -> (ProgramExit, [String: Any]) {
            var random = SeededGenerator()
            return try PeerFleet.run { fleet in
                let path = fleet.folder.appendingPathComponent("report.json").path
                let seed = "\(random.next())"
                var arguments = ["random", "--minutes", "\(minutes)", "--seed", seed, "--report", path, "--in-memory"]
                if let defect { arguments += ["--defect", defect.rawValue] }
                arguments += options
                var program = try PeerFleet.program(named: "roundtable-torture")
                if isolated {
                    arguments = ["--mount", "--kill-child", "--fork", program.path] + arguments
                    program = URL(fileURLWithPath: "/usr/bin/unshare")
                }
                let campaign = try fleet.spawn(program: program, arguments: arguments)
                let exit = try campaign.waitForExit(within: .seconds(280))
                let data = try Data(contentsOf: URL(fileURLWithPath: path))
                return (exit, try JSONSerialization.jsonObject(with: data) as? [String: Any] ?? [:])
            }
        }
    }
}
