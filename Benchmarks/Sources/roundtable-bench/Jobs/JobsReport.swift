import Foundation

struct JobsReport: ProgramReport {
    struct Row: Encodable {
        let processes: Int
        let side: String
        /// Medians over the rounds.
        let addedPerSecond: Double
        let donePerSecond: Double
        /// The most that a process has done, by the least.
        let mostByLeast: Double
    }

    let jobs: Int
    let rounds: Int
    let rows: [Row]
    /// For each number of processes: our speed by that of GRDB, the median over the rounds.
    let ratios: [Double]
    let machine: Report.Machine

    func table() -> String {
        let header = ["processes", "side", "added_per_s", "done_per_s", "most_by_least"]
        let table = rows.map { row in
            [
                String(row.processes), row.side, format(row.addedPerSecond.rounded()),
                format(row.donePerSecond.rounded()),
                format(row.mostByLeast),
            ]
        }
        let others = machine.coresUsedByOthers.map { ", of which others used \(format($0))" } ?? ""
        return
            ([
                "jobs: \(jobs) jobs, 4 handlers a process, medians of \(rounds) rounds; SQLite \(Report.sqliteVersion), \(machine.cores) cores\(others)",
                "",
            ] + aligned([header] + table) + ["", "our speed by GRDB's: " + ratios.map(format).joined(separator: ", ")])
            .joined(separator: "\n")
    }
}
