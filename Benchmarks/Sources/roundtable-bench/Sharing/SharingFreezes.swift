#if os(Linux)
    import Foundation
    import GRDB
    import Roundtable
    import RoundtableTestKit

    /// Puts a program that shares before the police, in rounds: each has a new database, an owner that nobody freezes, and a program that is
    /// killed in the end.
    struct SharingFreezes {
        struct Findings: Encodable {
            let seed: UInt64
            var freezes = 0
            var convicted = 0
            var convictions: [String] = []
            var acknowledged = 0
            /// Acknowledged, and not applied.
            var lost = 0
            /// Applied twice, or before an earlier one.
            var misplaced = 0
            var outcomes = 0
            var reads = 0
            var writes = 0
            var values = 0
            var problems = 0
            var seconds = 0.0
        }

        private static let freezesPerRound = 250

        private let folder: URL
        private let seed: UInt64

        init(_ folder: URL, seed: UInt64) {
            self.folder = folder
            self.seed = seed
        }

        func run(freezes: Int) throws -> Findings {
            var terms = SuspensionTerms()
            terms.law = .strict
            // It is not told: at any moment, it has to be as it should be.
            terms.notice = nil
            terms.punishment = .report
            let police = try SuspensionPolice(terms)
            defer { police.end() }
            var findings = Findings(seed: seed)
            while findings.freezes < freezes {
                let count = min(Self.freezesPerRound, freezes - findings.freezes)
                try round(count, police, &findings)
            }
            return findings
        }

        private func round(_ count: Int, _ police: SuspensionPolice, _ findings: inout Findings) throws {
            let folder = folder.appendingPathComponent(UUID().uuidString)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            defer { try? FileManager.default.removeItem(at: folder) }
            let isDurable = findings.freezes / Self.freezesPerRound % 2 == 0
            let place = try SharingPlace(in: folder, name: "shared", isDurable: isDurable)
            let owner = try ParticipantProcess(.owner(place), name: "owner", in: folder)
            defer { owner.end() }
            let countsPath = folder.appendingPathComponent("counts").path
            let counts = try SharingCounts(countsPath)
            let task = SharingProgram.Task(place: place, countsPath: countsPath)
            let json = String(decoding: try JSONEncoder().encode(task), as: UTF8.self)
            guard let executable = Bundle.main.executablePath else {
                throw SuspensionFailure("cannot find the executable of this process, to start it again")
            }
            let pid = try police.launch([executable, "sharing-program", json], outputToErrors: true)
            try wait("the program is ready") { counts[.ready] == Int(pid) }
            let report = try police.patrol(
                pid,
                freezes: count,
                pauses: .zero...(.milliseconds(20)),
                seed: seed &+ UInt64(findings.freezes)
            )
            guard report.freezes == count else { throw SuspensionFailure("the program has ended by itself") }
            // At any moment: what it had acknowledged by then is not lost.
            police.terminate(pid, patience: .zero)
            try wait("everything is applied") {
                try FileManager.default.contentsOfDirectory(atPath: place.commands).isEmpty
            }
            findings.freezes += report.freezes
            findings.convicted += report.convicted
            findings.convictions += report.convictions.map(\.description)
            findings.seconds += report.duration / .seconds(1)
            findings.acknowledged += counts[.acknowledged]
            findings.outcomes += counts[.outcomes]
            findings.reads += counts[.reads]
            findings.writes += counts[.writes]
            findings.values += counts[.values]
            findings.problems += counts[.problems]
            try compare(place, acknowledged: counts[.acknowledged], &findings)
        }

        private func compare(_ place: SharingPlace, acknowledged: Int, _ findings: inout Findings) throws {
            let queue = try DatabaseQueue(path: place.path)
            let applied = try queue.read { db in
                try Int.fetchAll(db, sql: "SELECT CAST(text AS INTEGER) FROM entry ORDER BY id")
            }
            try queue.close()
            findings.lost += Set(1...max(1, acknowledged)).subtracting(applied).count
            findings.misplaced += zip(applied, applied.dropFirst()).count { $0 >= $1 }
        }

        private func wait(_ what: String, _ condition: () throws -> Bool) throws {
            let deadline = Clock.now + Nanoseconds(seconds: 60)
            while try !condition() {
                guard Clock.now < deadline else { throw SuspensionFailure("waited 60 s in vain until \(what)") }
                usleep(2000)
            }
        }
    }

    extension SharingFreezes.Findings {
        private struct Report: Encodable {
            let findings: SharingFreezes.Findings
            let machine: roundtable_bench.Report.Machine
        }

        func text(json: Bool, machine: roundtable_bench.Report.Machine) throws -> String {
            if json {
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
                return String(decoding: try encoder.encode(Report(findings: self, machine: machine)), as: UTF8.self)
            }
            let others = machine.coresUsedByOthers.map { ", of which others used \(format($0))" } ?? ""
            return
                (["sharing --freezes: seed 0x\(String(seed, radix: 16)); \(machine.cores) cores\(others)", ""]
                + aligned(
                    [
                        ("freezes, without notice, strict law", freezes), ("convicted", convicted),
                        ("commands acknowledged", acknowledged), ("… and lost", lost),
                        ("applied twice or out of order", misplaced), ("outcomes", outcomes),
                        ("snapshots read", reads), ("snapshots written", writes), ("values that came", values),
                        ("errors, half values, other outcomes", problems), ("seconds", Int(seconds)),
                    ].map { [$0.0, "\($0.1)"] }
                ) + convictions.prefix(10)).joined(separator: "\n")
        }
    }
#endif
