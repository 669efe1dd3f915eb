import Foundation
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

@Suite struct DemoPartsTests {
    /// A percentile is off by at most one bucket, 1.6 %.
    @Test(arguments: [1 as UInt64, 63, 64, 65, 1_000, 123_456, 987_654_321, 1 << 40, .max])
    func `A histogram of one value has that value as all percentiles`(value: UInt64) {
        var histogram = LatencyHistogram()
        histogram.record(value)
        #expect(histogram.percentile(0.5) == value)
        #expect(histogram.percentile(1) == value)
        #expect(histogram.longest == value)
    }

    @Test func `Percentiles of a thousand values`() {
        var histogram = LatencyHistogram()
        for value in 1...1000 { histogram.record(UInt64(value) * 1000) }
        #expect((500_000...508_000).contains(histogram.percentile(0.5)))
        #expect((990_000...1_000_000).contains(histogram.percentile(0.99)))
        #expect(LatencyHistogram().percentile(0.5) == 0)
    }

    @Test func `Jain's index`() {
        #expect(jainIndex([7, 7, 7]) == 1)
        #expect(jainIndex([1, 0, 0, 0]) == 0.25)
        #expect(jainIndex([]) == 0)
    }

    @Test(arguments: [1, 2, 3, 4, 5, 9, DemoCast.maximumSize])
    func `All players have names of their own; the fourth only reads, the fifth never opens the database`(size: Int) {
        let cast = DemoCast(size: size)
        #expect(cast.players.count == size)
        #expect(Set(cast.players.map(\.name)).count == size)
        #expect(cast.writerCount == size - (size >= 4 ? 1 : 0) - (size >= 5 ? 1 : 0))
        #expect(cast.players.first?.name == DemoCast.owner)
        #expect(cast.players.dropFirst(3).map(\.role).prefix(2) == [.readOnly, .outboxOnly].prefix(max(0, size - 3)))
    }

    /// What was logged, for three commands that were submitted.
    @Test(arguments: [
        ([1, 2, 3], []),
        ([1, 2], ["3 commands were submitted, 2 applied"]),
        ([1, 3, 2], ["commands were not applied once each, in their order"]),
        ([1, 2, 2], ["commands were not applied once each, in their order"]),
        (
            [1, 2, 2, 3],
            ["3 commands were submitted, 4 applied", "commands were not applied once each, in their order"]
        ),
    ])
    func `A command that is missing, applied twice or out of order is a problem`(logged: [Int], problems: [String]) {
        var member = DemoFleet.Member(player: .init(name: "interactive widget", role: .outboxOnly))
        member.report = PeerReport(phase: .done)
        member.report?.interactive = .init(run: UUID(), submitted: 3, seen: 3)
        let findings = DemoDatabase.Findings(rows: 0, lastEntry: 0, integrity: "ok", logged: logged)
        let report = DemoReport(members: [member], rowsBefore: 0, findings: findings, seconds: 1)
        #expect(report.problems == problems)
        let mark = problems.isEmpty ? "✓" : "✗"
        #expect(report.text.contains("\(mark) submitted commands that are applied"), "\(report.text)")
        #expect(report.text.contains("\n  All is \(mark == "✓" ? "well" : "not well"): "), "\(report.text)")
    }

    private func report(commits: Int, before: Int, found: Int) -> DemoReport {
        var members = DemoCast(size: 5).players.map { DemoFleet.Member(player: $0) }
        for index in members.indices { members[index].report = PeerReport(phase: .done) }
        members[0].report?.count = commits
        let findings = DemoDatabase.Findings(rows: found, lastEntry: 0, integrity: "ok", logged: [])
        return DemoReport(members: members, rowsBefore: before, findings: findings, seconds: 1)
    }

    /// A build for debugging says that its figures are not those of a program for release; a build for release has nothing to say.
    @Test func `Figures that are not of a release build are called so`() {
        var report = report(commits: 1, before: 0, found: 1)
        report.isOptimized = false
        #expect(report.text.contains("build for debugging"))
        report.isOptimized = true
        #expect(!report.text.contains("build for debugging"))
    }

    /// What was committed is what the table above says; what is there in all is said beside it.
    @Test func `Rows are counted so that they can be compared`() {
        func line(_ report: DemoReport) -> Substring? {
            report.text.split(separator: "\n").first { $0.contains("committed rows") }
        }
        #expect(line(report(commits: 1234, before: 0, found: 1234))?.hasSuffix("  all 1,234") == true)
        let later = line(report(commits: 1234, before: 1000, found: 2234))
        #expect(later?.hasSuffix("  all 1,234, and the 1,000 of earlier demos") == true)
        let more = report(commits: 1234, before: 0, found: 1236)
        #expect(
            line(more)?.hasSuffix("  all 1,234; 2 more, of processes that died before they could count them") == true
        )
        #expect(line(more)?.contains("✓") == true)
        let less = line(report(commits: 1234, before: 0, found: 1230))
        #expect(less?.contains("✗") == true && less?.hasSuffix("  4 of 1,234 are missing") == true)
    }

    @Test func `Numbers and values stand below each other`() throws {
        let text = report(commits: 1_234_567, before: 0, found: 1_234_567).text
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        func column(of text: String) throws -> [Int] {
            try lines.compactMap { line in
                guard let range = line.range(of: text) else { return nil }
                return try #require(line.distance(from: line.startIndex, to: range.lowerBound) as Int?)
            }
        }
        #expect(try column(of: " commits  ").count == 3 && Set(try column(of: " commits  ")).count == 1)
        #expect(try column(of: " commits  ").first == column(of: " reads  ").first)
        // The facts: two spaces before each value.
        let facts = lines.drop { !$0.isEmpty }.filter {
            $0.hasPrefix("  ·") || $0.hasPrefix("  ✓") || $0.hasPrefix("  ✗")
        }
        let starts = facts.map { line in
            let value = line.dropFirst(4).range(of: "  ").map { line[$0.lowerBound...].drop { $0 == " " } } ?? ""
            return line.count - value.count
        }
        #expect(facts.count >= 6 && Set(starts).count == 1, "\(text)")
        // While it runs, also after more than nine seconds.
        let members = DemoCast(size: 5).players.map { DemoFleet.Member(player: $0) }
        #expect(
            Set((DemoScreen.plain(members, second: 9) + DemoScreen.plain(members, second: 10)).map(\.count)).count == 1
        )
    }

    /// With the longest pid of Linux, millions of commits, and a wait of an hour.
    @Test func `The table and the lines while it runs fit into 80 columns`() {
        var members = DemoCast(size: 14).players.map { DemoFleet.Member(player: $0, pid: 4_194_304) }
        for index in members.indices {
            members[index].report = PeerReport(phase: .done, count: 1_234_567, longestWait: 3_600_000_000_000)
            members[index].report?.p50 = 9_999_000
            members[index].report?.p99 = 99_990_000
        }
        members[4].report?.interactive = .init(run: UUID(), submitted: 12_345, seen: 3)
        members[0].failure = "was killed by signal 11"
        members[1].failure = "ended with exit code 139"
        let report = DemoReport(members: members, rowsBefore: 0, findings: nil, seconds: 1)
        let table = report.text.split(separator: "\n", omittingEmptySubsequences: false).prefix { !$0.hasPrefix("  ✗") }
        let lines =
            table.map(String.init) + DemoScreen.bars(members, elapsed: 1) + DemoScreen.plain(members, second: 1000)
        for line in lines where line.displayWidth > 80 {
            Issue.record("\(line.displayWidth) columns: \(line)")
        }
        #expect(table.count > members.count)
    }

    /// A widget that was killed may have submitted more than it could report; what it reported must be there.
    @Test func `A widget that was killed may have submitted more`() {
        var member = DemoFleet.Member(player: .init(name: "interactive widget", role: .outboxOnly))
        member.failure = "was killed by signal 9"
        member.report = PeerReport(phase: .running)
        member.report?.interactive = .init(run: UUID(), submitted: 3, seen: 2)
        func problems(_ logged: [Int]) -> Int {
            let findings = DemoDatabase.Findings(rows: 0, lastEntry: 0, integrity: "ok", logged: logged)
            return DemoReport(members: [member], rowsBefore: 0, findings: findings, seconds: 1).problems.count
        }
        #expect(problems([1, 2, 3, 4]) == 1)
        #expect(problems([1, 2]) == 2)
    }
}
