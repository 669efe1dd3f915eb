import Foundation

struct FootprintReport: ProgramReport {
    struct Row: Encodable {
        let program: String
        /// Bytes.
        let strippedSize: Int
        /// Bytes, at its most.
        let residentMemory: Double
        /// From before the program is started until it has ended.
        let milliseconds: Double
    }

    /// The first one is what the others are compared with.
    let rows: [Row]
    let rounds: Int
    let machine: Report.Machine

    func table() -> String {
        let least = rows[0]
        func cells(_ value: Double, _ least: Double, unit: Double) -> [String] {
            [format(value / unit), String(format: "%.2f", value / least)]
        }
        let header = ["", "stripped_mb", "ratio", "resident_mb", "ratio", "ms", "ratio"]
        let table = rows.map { row in
            [row.program] + cells(Double(row.strippedSize), Double(least.strippedSize), unit: 1e6)
                + cells(row.residentMemory, least.residentMemory, unit: 1e6)
                + cells(row.milliseconds, least.milliseconds, unit: 1)
        }
        let others = machine.coresUsedByOthers.map { ", of which others used \(format($0))" } ?? ""
        return
            (["footprint: \(rounds) runs each, in turns; \(machine.cores) cores\(others)", ""]
            + aligned([header] + table))
            .joined(separator: "\n")
    }
}
