#if os(Linux)
    import Foundation
    import RoundtableTestKit

    /// Contestants under the same terms.
    struct SuspensionCell: Encodable {
        var contestants: [SuspensionContestant]
        var freezes: Int
        /// In ms; nil for none.
        var notice: Int?
        /// In ms.
        var computing: Double
        var assertions: AssertionSupply
        var activity: SuspensionActivity?
        var rows = 3
        var findings: [SuspensionFindings] = []
    }

    /// Puts contestants before one police, in turns.
    struct SuspensionContest {
        let base: SuspensionTask
        let folder: URL
        let seed: UInt64
        let round: Int
        var law = SuspensionLaw.documented

        init(_ base: SuspensionTask, folder: URL, seed: UInt64, round: Int) {
            self.base = base
            self.folder = folder
            self.seed = seed
            self.round = round
        }

        func run(_ cell: SuspensionCell) throws -> SuspensionCell {
            var terms = SuspensionTerms()
            terms.law = law
            terms.notice = cell.notice.map { .milliseconds($0) }
            terms.assertionTime = cell.assertions == .on ? .seconds(30) : .zero
            let police = try SuspensionPolice(terms)
            defer { police.end() }
            var cell = cell
            cell.findings = cell.contestants.map(SuspensionFindings.init)
            var left = cell.freezes
            var number: UInt64 = 0
            while left > 0 {
                let count = min(left, round)
                for turn in cell.contestants.indices {
                    // Nobody is always first.
                    let index = (turn + Int(number)) % cell.contestants.count
                    var task = base
                    task.contestant = cell.contestants[index]
                    task.computingMilliseconds = cell.computing
                    task.assertions = cell.assertions
                    task.activity = cell.activity
                    task.rows = cell.rows
                    let trial = SuspensionTrial(
                        task: task,
                        police: police,
                        // The moments are to be anywhere in a transaction.
                        longestPause: .milliseconds(max(20, cell.computing)),
                        folder: folder
                    )
                    try trial.run(freezes: count, seed: seed &+ number << 32, &cell.findings[index])
                }
                left -= count
                number += 1
            }
            return cell
        }

        /// Closures that compute, ours and GRDB's.
        func table(freezes: Int, longFreezes: Int) throws -> [SuspensionCell] {
            var cells: [SuspensionCell] = []
            for computing in [5.0, 200, 5000] {
                for notice in [0, 50, 500] {
                    for assertions in [AssertionSupply.off, .on] {
                        let cell = SuspensionCell(
                            contestants: [.grdbNotified, .ours],
                            freezes: computing >= 1000 ? longFreezes : freezes,
                            notice: notice,
                            computing: computing,
                            assertions: assertions
                        )
                        FileHandle.standardError.write(Data("\(cell.title)\n".utf8))
                        cells.append(try run(cell))
                    }
                }
            }
            return cells
        }
    }

    extension SuspensionCell {
        var title: String {
            let noticeText = notice.map { "notice \($0) ms" } ?? "no notice"
            let rowsText = rows > 3 ? "\(rows) rows, " : ""
            let computingText = computing > 0 ? "computing \(Int(computing)) ms" : "no computing"
            let activityText = activity.map { ", \($0.rawValue) going on" } ?? ""
            return "\(rowsText)\(computingText), \(noticeText), assertions \(assertions.rawValue)\(activityText)"
        }
    }
#endif
