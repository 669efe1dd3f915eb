#if os(Linux)
    import Foundation
    import Roundtable

    /// What a campaign of power cuts of a real file system has found.
    struct Ext4Report: Codable {
        /// One power cut.
        struct Cut: Codable {
            /// The seed of the file system, and the number of the cut of it.
            var lifeSeed: UInt64
            var number: Int
            var kind: Ext4Image.Cut
            /// The file system, and when its power was cut.
            var description = ""
            var finding: CrashStateChecker.Finding?
            /// Where the files are left.
            var files: String?
            var acknowledgedCommits: UInt64 = 0
            var acknowledgedCommands = 0
            var acknowledgedSnapshots: UInt64 = 0
            /// What was acknowledged to processes between the moment at which the cut began and their end.
            var acknowledgedDuringCut: UInt64 = 0
            /// Whether some of it is not there.
            var lostDuringCut = false
            /// The acknowledged commits that are not there. They are the last ones.
            var lostCommits: UInt64 = 0
            /// Whether the snapshot file that is not synced has an older value, or none.
            var lostUnsynced = false
            /// Whether the cut dropped a file that was written without a sync just before.
            var droppedCanary = false
            /// How processes ended before they were killed.
            var endings: [String: Int] = [:]

            init(lifeSeed: UInt64, number: Int, kind: Ext4Image.Cut) {
                (self.lifeSeed, self.number, self.kind) = (lifeSeed, number, kind)
            }

            mutating func note(
                _ observation: CrashStateChecker.Observation,
                before: AcknowledgedBounds,
                required: AcknowledgedBounds,
                all: AcknowledgedBounds
            ) {
                acknowledgedCommits = required.commit - before.commit
                acknowledgedCommands = (required.commands & ~before.commands).nonzeroBitCount
                acknowledgedSnapshots = required.snapshot - before.snapshot
                acknowledgedDuringCut =
                    all.commit - required.commit + all.snapshot - required.snapshot
                    + UInt64((all.commands & ~required.commands).nonzeroBitCount)
                if observation.defect == nil, observation.commits < required.commit {
                    lostCommits = required.commit - observation.commits
                }
                lostUnsynced = observation.unsyncedSnapshot < required.unsyncedSnapshot
            }
        }

        var durability: CommitDurability
        var forgottenSyncs: IgnoredSyncs
        var seed: UInt64
        var wantedCuts: Int
        /// The file systems.
        var lives = 0
        var cuts = 0
        /// The cuts by what the file system still wrote.
        var kinds: [String: Int] = [:]
        var acknowledgedCommits: UInt64 = 0
        var acknowledgedCommands = 0
        var acknowledgedSnapshots: UInt64 = 0
        var acknowledgedDuringCut: UInt64 = 0
        /// The cuts that lost some of what was acknowledged while they happened.
        var cutsWithLossDuringCut = 0
        /// The cuts that lost acknowledged commits, the last ones; and how many at most. With `machine`, each of them is a failure.
        var cutsWithLoss = 0
        var largestLoss: UInt64 = 0
        /// The cuts that lost a value that no sync covers. They show that a cut drops what is not synced.
        var cutsWithUnsyncedLoss = 0
        /// The cuts that dropped a file that was written without a sync just before, and those that may: all but `everything`.
        var cutsThatDropped = 0
        var cutsThatMayDrop = 0
        /// How processes ended when their file system was gone, before they were killed.
        var endings: [String: Int] = [:]
        /// How often each kind of defect was found.
        var counts: [String: Int] = [:]
        var failures: [Cut] = []
        var seconds = 0.0

        init(_ campaign: Ext4Campaign) {
            durability = campaign.durability
            forgottenSyncs = campaign.forgotten
            seed = campaign.seed
            wantedCuts = campaign.cuts
        }

        mutating func add(_ cut: Cut) {
            cuts += 1
            kinds[cut.kind.name, default: 0] += 1
            acknowledgedCommits += cut.acknowledgedCommits
            acknowledgedCommands += cut.acknowledgedCommands
            acknowledgedSnapshots += cut.acknowledgedSnapshots
            acknowledgedDuringCut += cut.acknowledgedDuringCut
            cutsWithLossDuringCut += cut.lostDuringCut ? 1 : 0
            cutsWithLoss += cut.lostCommits > 0 ? 1 : 0
            largestLoss = max(largestLoss, cut.lostCommits)
            cutsWithUnsyncedLoss += cut.lostUnsynced ? 1 : 0
            cutsThatDropped += cut.droppedCanary ? 1 : 0
            cutsThatMayDrop += cut.kind == .everything ? 0 : 1
            endings.merge(cut.endings, uniquingKeysWith: +)
            guard let finding = cut.finding else { return }
            counts[finding.kind.rawValue, default: 0] += 1
            failures.append(cut)
        }

        /// Whether the cuts were none, because they have dropped nothing.
        var hasCutNothing: Bool { cutsThatMayDrop >= 5 && cutsThatDropped == 0 }

        func text(program: String) -> String {
            let synchronous = durability == .machine ? "FULL" : "NORMAL"
            let allowed = durability == .machine ? "" : ", which is allowed"
            func list(_ numbers: [String: Int]) -> String {
                numbers.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
            }
            var lines = [
                "power cuts of ext4, synchronous = \(synchronous), seed \(seed)",
                "  cuts                        \(cuts), of \(lives) file systems; they still wrote: \(list(kinds))",
                "  acknowledged before         \(acknowledgedCommits) commits, \(acknowledgedCommands) commands, \(acknowledgedSnapshots) snapshots",
                "  acknowledged while cut      \(acknowledgedDuringCut), some of which is lost in \(cutsWithLossDuringCut) cuts",
                "  without the last commits    \(cutsWithLoss), at most \(largestLoss) commits\(allowed)",
                "  without an unsynced file    \(cutsThatDropped), of \(cutsThatMayDrop) that may drop it",
                "  without an unsynced value   \(cutsWithUnsyncedLoss)",
                "  ended by the dead disk      \(list(endings))",
                "  time                        \(Int(seconds)) s",
            ]
            if forgottenSyncs != .none { lines.append("  FORGOTTEN SYNCS             \(forgottenSyncs.rawValue)") }
            for kind in CrashStateChecker.Finding.Kind.allCases {
                lines.append(
                    "  \(kind.words.padding(toLength: 28, withPad: " ", startingAt: 0))\(counts[kind.rawValue] ?? 0)"
                )
            }
            if counts.isEmpty {
                lines.append("Nothing is lost that was acknowledged and synced, and nothing is corrupt.")
            }
            for cut in failures.prefix(10) {
                guard let finding = cut.finding else { continue }
                lines.append(
                    "FAILED \(finding.kind.words), file system \(cut.lifeSeed), cut \(cut.number): \(finding.text)"
                )
                lines.append("  wrote \(cut.kind.name); \(cut.description)")
                let forgotten = forgottenSyncs == .none ? "" : " --ignore-sync \(forgottenSyncs.rawValue)"
                lines.append(
                    "  again: \(program) powercut --filesystem ext4 --durability \(durability == .machine ? "full" : "normal")"
                        + "\(forgotten) --seed \(cut.lifeSeed) --cuts \(cut.number) --threads 1 (the system schedules: repeat it a few times)"
                )
                if let files = cut.files { lines.append("  files: \(files)") }
            }
            return lines.joined(separator: "\n")
        }
    }
#endif
