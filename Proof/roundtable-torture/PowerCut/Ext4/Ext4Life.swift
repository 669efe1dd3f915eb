#if os(Linux)
    import Foundation
    import Glibc
    import Roundtable
    import RoundtableTestSupport

    /// One file system with one database, from an empty folder through some power cuts. The processes after a cut continue with what it
    /// has left.
    struct Ext4Life {
        private let campaign: Ext4Campaign
        private let seed: UInt64
        private let folder: URL
        private let environment: [String: String]
        private var random: SeededGenerator
        /// What must be there before the processes of the next cut begin.
        private var bounds = AcknowledgedBounds()
        private var nextCommand = 1
        private var nextValue: UInt64 = 1

        private static let writers = 3
        private static let cuts = 1...4
        /// Commands are numbered below 64.
        private static let lastCommand = 63

        init(_ campaign: Ext4Campaign, seed: UInt64, folder: URL, environment: [String: String]) {
            (self.campaign, self.seed, self.folder, self.environment) = (campaign, seed, folder, environment)
            random = SeededGenerator(seed: seed)
        }

        /// Ends with the first defect, because everything after it would be one, too.
        mutating func run(mayCut: () -> Bool, note: (Ext4Report.Cut) -> Void) throws {
            let image = try Ext4Image(in: folder, options: Ext4Image.Options(&random))
            defer { image.remove() }
            try image.mount()
            for number in 1...Int.random(in: Self.cuts, using: &random) where mayCut() {
                let cut = try cutPower(of: image, number)
                note(cut)
                if cut.finding != nil { return }
            }
        }

        private mutating func cutPower(of image: Ext4Image, _ number: Int) throws -> Ext4Report.Cut {
            let notes = folder.appendingPathComponent("cut-\(number)", isDirectory: true)
            let journals = notes.appendingPathComponent("journals", isDirectory: true)
            try FileManager.default.createDirectory(at: journals, withIntermediateDirectories: true)
            var fleet = PowerCutFleet(
                folder: image.data,
                notes: notes,
                durability: campaign.durability,
                seed: seed &+ UInt64(number) &* 1000
            )
            defer { fleet.end() }
            (fleet.environment, fleet.journals, fleet.recordsHistory) = (environment, journals, true)
            try start(&fleet)
            let before = bounds
            let moment = try waitForMoment(fleet, journals, isFirst: number == 1)
            // Often nothing, because it loses most.
            let kind = ([.nothing, .nothing, .nothing] + Ext4Image.Cut.allCases).randomElement(using: &random)!
            let writesBack = Bool.random(using: &random)
            // A generator of its own, because it draws once for each file, and their number depends on the processes.
            var pages = SeededGenerator(seed: random.next())
            if writesBack { image.writeBack(&pages) }

            try image.writeCanary()
            var required = before
            try required.add(journalsIn: journals)
            try image.cut(kind)
            // The processes meet the errors of the dead file system for a moment.
            usleep(UInt32.random(in: 0...30_000, using: &random))
            let endings = try fleet.endings()
            if let stuck = fleet.kill(within: .seconds(60)) {
                Ext4Machine.giveUp(
                    "the system does not end the \(stuck) after the power cut: see its log, it may have to be restarted"
                )
            }
            var all = required
            try all.add(journalsIn: journals)
            try image.unmount()
            try image.mount()
            let droppedCanary = !image.takeCanary()

            // Not the number of a command or value that a process was about to write.
            nextCommand = max(nextCommand, 1 + (64 - all.commands.leadingZeroBitCount)) + 1
            let value = max(nextValue, all.snapshot + 2)
            nextValue = value + 1
            let inspection = try inspect(image, notes, value)
            var cut = Ext4Report.Cut(lifeSeed: seed, number: number, kind: kind)
            cut.description = "\(image.options), checkpoints at \(fleet.checkpointThreshold) frames, \(moment)"
            cut.note(inspection.observation, before: before, required: required, all: all)
            let checker = CrashStateChecker(durability: campaign.durability, folder: folder)
            cut.droppedCanary = droppedCanary
            cut.finding = checker.judge(inspection.observation, required) ?? inspection.finding ?? crash(endings)
            // A machine without power acknowledges nothing, but ext4 does: a sync that runs while the file system is shut down may succeed
            // although its journal was aborted, also in a program that only writes and syncs. So this is no finding.
            cut.lostDuringCut = cut.finding == nil && checker.judge(inspection.observation, all) != nil
            for ending in endings { cut.endings["\(ending.exit)", default: 0] += 1 }
            if cut.finding != nil { cut.files = try keep(notes, number) }
            bounds = all.settled(commits: inspection.commits, snapshot: value)
            return cut
        }

        private mutating func start(_ fleet: inout PowerCutFleet) throws {
            // A WAL that is seldom copied has more to lose.
            fleet.checkpointThreshold = [16, 200, 1000].randomElement(using: &random)!
            for writer in 1...Self.writers { try fleet.start(.writer, writer, count: 1_000_000) }
            try fleet.start(.owner, 10, count: 0)
            let commands = min(Int.random(in: 1...24, using: &random), Self.lastCommand - nextCommand)
            if commands > 0 { try fleet.start(.sender, 11, count: commands, first: nextCommand) }
            try fleet.start(.publisher, 12, count: 1_000_000, first: Int(nextValue))
            if Bool.random(using: &random) { try fleet.start(.checkpointer, 13, count: 1_000_000) }
        }

        /// Waits for the moment of the cut: one while the processes open the database, or one after a number of commits.
        private mutating func waitForMoment(_ fleet: PowerCutFleet, _ journals: URL, isFirst: Bool) throws -> String {
            if Int.random(in: 0..<(isFirst ? 3 : 8), using: &random) == 0 {
                let time = UInt32.random(in: 0...400_000, using: &random)
                usleep(time)
                _ = try fleet.othersHaveEnded()
                return "\(time / 1000) ms after the start"
            }
            let commits = UInt64.random(in: 1...200, using: &random)
            let goal = bounds.commit + commits
            try eventually("\(commits) commits are acknowledged", within: .seconds(120)) {
                _ = try fleet.othersHaveEnded()
                var bounds = bounds
                try bounds.add(journalsIn: journals)
                return bounds.commit >= goal
            }
            let time = UInt32.random(in: 0...15_000, using: &random)
            usleep(time)
            return "\(time) µs after \(commits) commits"
        }

        private func inspect(_ image: Ext4Image, _ notes: URL, _ value: UInt64) throws -> PowerCutInspection {
            let report = notes.appendingPathComponent("inspection.json")
            let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let process = try ChildProcess(
                executable: URL(fileURLWithPath: program),
                arguments: [
                    "powercut-inspect", "--folder", image.data.path, "--notes", notes.path, "--report", report.path,
                    "--durability", campaign.durability.rawValue, "--value", "\(value)",
                ],
                errorOutput: notes.appendingPathComponent("inspector.errors")
            )
            let exit = try process.waitForExit(within: .seconds(240))
            guard exit == .status(0) else {
                throw TestKitError("the inspector ended with \(exit): \(process.errorText)")
            }
            return try JSONDecoder().decode(PowerCutInspection.self, from: Data(contentsOf: report))
        }

        /// Processes may end with an error when their file system is gone, and with SIGBUS, because the memory that they share is a file of
        /// it. They do not crash otherwise.
        private func crash(
            _ endings: [(name: String, exit: ProgramExit, errors: String)]
        ) -> CrashStateChecker.Finding? {
            for (name, exit, errors) in endings {
                guard case .signal(let signal) = exit, signal != SIGBUS else { continue }
                return .init(kind: .notUsable, text: "the \(name) ended with \(exit): \(errors.suffix(2000))")
            }
            return nil
        }

        /// - returns: where the notes of a cut are left, with the files as they were when the file system was mounted again.
        private func keep(_ notes: URL, _ number: Int) throws -> String? {
            guard let kept = campaign.kept else { return nil }
            try FileManager.default.createDirectory(at: kept, withIntermediateDirectories: true)
            let target = kept.appendingPathComponent("powercut-\(String(seed, radix: 16))-\(number)")
            try? FileManager.default.removeItem(at: target)
            try FileManager.default.copyItem(at: notes, to: target)
            return target.path
        }
    }
#endif
