#if os(Linux)
    import Foundation
    import Roundtable

    /// What a run of `suspension` found.
    struct FreezingReport: Encodable {
        let cells: [SuspensionCell]
        let machine: Report.Machine

        init(_ cells: [SuspensionCell], _ load: OtherLoad?) {
            self.cells = cells
            machine = Report.Machine(load)
        }

        func json() throws -> String {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }

        func markdown(seed: UInt64, law: String, policy: SuspensionPolicy) -> String {
            var lines = [
                heading(seed) + "; law \(law), policy of ours \(policy.rawValue)",
                "",
                "| " + Self.columns.joined(separator: " | ") + " |",
                "|" + String(repeating: " --- |", count: 2)
                    + String(repeating: " ---: |", count: Self.columns.count - 2),
            ]
            for cell in cells {
                for findings in cell.findings { lines.append(Self.row(cell, findings)) }
            }
            return (lines + remarks).joined(separator: "\n")
        }

        /// A row for each closure, notice and supply of assertions, with the contestants beside each other.
        func closures(seed: UInt64) -> String {
            let labels = cells.first?.findings.map(\.contestant.label) ?? []
            let columns = labels.flatMap { ["\($0): convicted", "finished", "rolled back", "lost"] }
            var lines = [
                heading(seed),
                "",
                "| the closure computes | notice | assertions | freezes | " + columns.joined(separator: " | ") + " |",
                "| --- | --- | --- |" + String(repeating: " ---: |", count: columns.count + 1),
            ]
            for cell in cells {
                let figures = cell.findings.flatMap { findings in
                    [
                        "\(findings.convicted)" + (findings.stalled > 0 ? " (\(findings.stalled) stalled)" : ""),
                        "\(findings.finished)", "\(findings.rolledBack)", "\(findings.lost)",
                    ]
                }
                let terms = [
                    "\(Int(cell.computing)) ms", cell.notice.map { "\($0) ms" } ?? "none", cell.assertions.rawValue,
                    "\(cell.freezes)",
                ]
                lines.append("| " + (terms + figures).joined(separator: " | ") + " |")
            }
            return (lines + remarks).joined(separator: "\n")
        }

        private func heading(_ seed: UInt64) -> String {
            "seed 0x\(String(seed, radix: 16)); \(machine.cores) cores"
                + (machine.coresUsedByOthers.map { String(format: ", of which others used %.2f", $0) } ?? "")
        }

        private var remarks: [String] {
            cells.flatMap { cell in
                cell.findings.flatMap { findings in
                    findings.remarks.map { "- \(cell.title), \(findings.contestant.label): \($0)" }
                }
            }
        }

        private static let columns = [
            "terms", "program", "freezes", "convicted", "… on a stalled machine", "acknowledged", "lost",
            "finished", "rolled back",
            "errors inside", "errors at the door", "answer p50, max ms", "finishing p50, max ms", "put off p50, max ms",
            "tx/s",
        ]

        private static func row(_ cell: SuspensionCell, _ findings: SuspensionFindings) -> String {
            let rules = findings.convictedByRule.isEmpty ? "" : " (\(list(findings.convictedByRule)))"
            let cells = [
                cell.title, findings.contestant.label, "\(findings.freezes)", "\(findings.convicted)\(rules)",
                "\(findings.stalled)",
                "\(findings.acknowledged)", "\(findings.lost)", "\(findings.finished)", "\(findings.rolledBack)",
                list(findings.errorsInside), list(findings.errorsOutside),
                times(findings.answers), times(findings.finishing), times(findings.postponements),
                String(format: "%.0f", findings.transactionsPerSecond),
            ]
            return "| " + cells.joined(separator: " | ") + " |"
        }

        private static func list(_ counts: [String: Int]) -> String {
            guard !counts.isEmpty else { return "0" }
            return counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        }

        private static func times(_ values: [Double]) -> String {
            guard let longest = values.max() else { return "–" }
            return String(format: "%.1f, %.1f", values.median, longest)
        }
    }

    extension SuspensionFindings {
        /// What must not be, and what no column has.
        fileprivate var remarks: [String] {
            var remarks: [String] = []
            if torn > 0 { remarks.append("\(torn) transactions are there in part") }
            if crashes > 0 { remarks.append("\(crashes) processes ended by themselves") }
            if committedThoughFailed > 0 {
                remarks.append("\(committedThoughFailed) errors of transactions that were committed")
            }
            if expired > 0 { remarks.append("\(expired) assertions outlasted their time") }
            if postponed > 0 { remarks.append("\(postponed) freezes were put off by an assertion") }
            if !gate.isEmpty {
                remarks.append(
                    "the gate's answers: "
                        + gate.sorted { $0.key < $1.key }.map { "\($0) \($1)" }.joined(separator: ", ")
                )
            }
            if !activity.isEmpty {
                remarks.append(
                    "went on: " + activity.sorted { $0.key < $1.key }.map { "\($0) \($1)" }.joined(separator: ", ")
                )
            }
            remarks += integrityErrors.map { "integrity_check: \($0)" }
            remarks += firstErrors.sorted { $0.key < $1.key }.map { "first error \($0): \($1)" }
            return remarks
        }
    }
#endif
