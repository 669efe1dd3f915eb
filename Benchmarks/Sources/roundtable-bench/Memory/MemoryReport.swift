import Foundation

struct MemoryReport: ProgramReport {
    /// Of each of the processes that idle at the same time, in bytes.
    struct Row: Encodable {
        let program: String
        let processes: Int
        let rss: Double
        let pss: Double
        /// The middle half over the rounds.
        let pssRange: [Double]
        let unshared: Double
        let threads: Double

        /// - parameter rounds: the sums of all processes.
        init(_ program: IdleProgram, processes: Int, rounds: [ProcessMemory]) {
            self.program = program.title
            self.processes = processes
            let count = Double(processes)
            rss = (rounds.map(\.resident).median / count).rounded()
            pss = (rounds.map(\.proportional).median / count).rounded()
            pssRange = rounds.map { $0.proportional / count }.middleHalf.map { $0.rounded() }
            unshared = (rounds.map(\.unshared).median / count).rounded()
            threads = rounds.map(\.threads).median / count
        }
    }

    let name = "memory"
    let rows: [Row]
    let rounds: Int
    let machine: Report.Machine
    let sqliteVersion = Report.sqliteVersion

    func table() -> String {
        let others = machine.coresUsedByOthers.map { ", of which others used \(format($0))" } ?? ""
        var lines = ["memory: \(rounds) rounds; SQLite \(sqliteVersion), \(machine.cores) cores\(others)"]
        for count in Set(rows.map(\.processes)).sorted() {
            let rows = rows.filter { $0.processes == count }
            let header = [
                count == 1 ? "1 process" : "each of \(count) processes", "pss_mb", "(middle half)", "of the first",
                "unshared_mb", "rss_mb", "threads",
            ]
            lines.append("")
            lines += aligned(
                [header]
                    + rows.map { row in
                        [
                            row.program, Self.megabytes(row.pss),
                            "(\(row.pssRange.map(Self.megabytes).joined(separator: "–")))",
                            String(format: "%.2f", row.pss / rows[0].pss), Self.megabytes(row.unshared),
                            Self.megabytes(row.rss), format(row.threads),
                        ]
                    }
            )
        }
        return lines.joined(separator: "\n")
    }

    private static func megabytes(_ bytes: Double) -> String { String(format: "%.2f", bytes / 1e6) }
}
