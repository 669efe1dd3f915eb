import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import Testing

@testable import RoundtableTestKit

/// Fleets of real processes. Their roles are in `roundtable-torture`.
@Suite(.serialized) struct FleetTests {
    private static let program = Fleet.Program.beside("roundtable-torture", arguments: ["check-role"])

    private static func writers(_ workload: String, _ transactions: Int) -> [String: String] {
        ["workload": workload, "transactions": String(transactions)]
    }

    @Test func killedAndStoppedWritersLoseNothing() throws {
        let report = try Fleet.run(program: Self.program) { fleet in
            try fleet.start("writer", count: 3, arguments: Self.writers("lists", 1_500))
            // Two rounds, which end before the writers do.
            var plan = FaultPlan([(.kill, 2), (.stop, 1), (.suspend, 1)], count: 8)
            plan.pauses = .milliseconds(5)...(.milliseconds(30))
            plan.durations = .milliseconds(1)...(.milliseconds(50))
            try fleet.carryOut(plan)
            try fleet.waitForEnd()
            let queue = try DatabaseQueue(path: fleet.folder.appendingPathComponent("shared.sqlite").path)
            try fleet.finish(ListAppend(), in: queue)
            return try fleet.report(findings: queue.read { try Invariants.integrity(of: $0) })
        }
        #expect(report.isClean, "\(report)")
        #expect(report.check.transactions >= 4_500 && report.check.committed > 4_400, "\(report)")
        #expect(
            report.faults.contains { $0.contains(": kill: ") } && report.faults.contains { $0.contains(": stop: ") }
        )
        #expect(report.check.unverified == 0)
    }

    /// Each step in a transaction of its own, with a delay between two steps.
    @Test(.long(), arguments: ["lists", "registers", "bank", "queue"]) func naiveCodeIsFound(_ workload: String) throws
    {
        let report = try Fleet.run(program: Self.program) { fleet in
            try fleet.start("naive-writer", count: 3, arguments: Self.writers(workload, 400))
            var plan = FaultPlan([(.delay(at: "between steps"), 1)], count: .max)
            plan.pauses = .milliseconds(1)...(.milliseconds(5))
            plan.durations = .milliseconds(5)...(.milliseconds(20))
            try fleet.carryOut(plan)
            try fleet.waitForEnd()
            return try fleet.report()
        }
        #expect(!report.isClean, "\(report)")
        #expect(
            "\(report)".contains(
                "ROUNDTABLE_SEED=0x\(String(report.seed, radix: 16)) swift test --filter 'naiveCodeIsFound'"
            )
        )
        if workload == "lists" { #expect("\(report)".contains("is before"), "\(report)") }
    }

    @Test func aPointDelaysTheNextToPass() throws {
        let faults = try Fleet.run(program: Self.program) { fleet in
            try fleet.start("passer", count: 1)
            var plan = FaultPlan([(.delay(at: "here and now"), 1)], count: .max)
            plan.durations = .seconds(1)...(.seconds(1))
            try fleet.carryOut(plan)
            try fleet.waitForEnd(within: .seconds(40))
            return try fleet.report().faults
        }
        #expect(!faults.isEmpty)
    }

    /// A full disk makes transactions fail, and none of them is there afterwards.
    @Test func aFullDisk() throws {
        let report = try Fleet.run(disk: .limited(bytes: 24 << 20), program: Self.program) { fleet in
            try fleet.start("writer", count: 2, arguments: Self.writers("lists", 3_000))
            // A process that cannot even open the database ends with an error, and rightly so.
            try eventually("both writers write", within: .seconds(60)) {
                try Set(fleet.history().transactions.map(\.worker)).count == 2
            }
            var plan = FaultPlan([(.diskFull, 1)], count: .max)
            plan.durations = .milliseconds(50)...(.milliseconds(200))
            try fleet.carryOut(plan)
            try fleet.waitForEnd()
            let queue = try DatabaseQueue(path: fleet.folder.appendingPathComponent("shared.sqlite").path)
            try fleet.finish(ListAppend(), in: queue)
            return try fleet.report(findings: queue.read { try Invariants.integrity(of: $0) })
        }
        #expect(report.isClean, "\(report)")
        // It says how many transactions hit the full disk, or that none could.
        print("aFullDisk: \(report)")
        if report.skipped.isEmpty {
            #expect(report.check.failed + report.check.unknown > 0, "no transaction hit the full disk: \(report)")
        }
    }

    @Test func aScriptIsAChild() throws {
        let text = try Fleet.run { fleet in
            let script = #"echo "hello" > "$ROUNDTABLE_FLEET_FOLDER/out"; echo "noise""#
            try fleet.start(program: URL(fileURLWithPath: "/bin/sh"), arguments: ["-c", script])
            try fleet.waitForEnd(within: .seconds(30))
            return try String(contentsOf: fleet.folder.appendingPathComponent("out"), encoding: .utf8)
        }
        #expect(text == "hello\n")
    }

    @Test func aRoleThatFailsIsAnError() throws {
        let error = #expect(throws: FleetError.self) {
            try Fleet.run(seed: 0x2A, program: Self.program) { fleet in
                try fleet.start("failing-writer")
                try fleet.waitForEnd(within: .seconds(30))
            }
        }
        let text = try #require(error).description
        #expect(text.contains("this role always fails"))
        #expect(text.contains("ROUNDTABLE_SEED=0x2a swift test --filter 'aRoleThatFailsIsAnError'"))
    }

    @Test func aRoleThatDoesNotEndIsAnErrorAndIsKilled() throws {
        var folder: URL?
        let error = #expect(throws: FleetError.self) {
            try Fleet.run(program: Self.program) { fleet in
                folder = fleet.folder
                try fleet.start("endless-writer")
                try fleet.waitForEnd(within: .milliseconds(300))
            }
        }
        #expect(try #require(error).description.contains("these have not ended: endless-writer (worker 1)"))
        #expect(!FileManager.default.fileExists(atPath: try #require(folder).path))
    }

    @Test func aRoleThatHangsUnderFaultsIsAnError() throws {
        let error = #expect(throws: FleetError.self) {
            try Fleet.check(
                "endless-writer",
                processes: 1,
                program: Self.program,
                within: .milliseconds(300)
            )
        }
        #expect(try #require(error).description.contains("these have not ended: endless-writer (worker "))
    }

    @Test func aRoleMayStartItsOwnProgram() throws {
        try Fleet.run(program: Self.program) { fleet in
            try fleet.start("environment-reader")
            try fleet.waitForEnd(within: .seconds(30))
        }
    }

    @Test func aMessageThatIsNoUTF8IsShown() throws {
        let error = #expect(throws: FleetError.self) {
            try Fleet.run { fleet in
                try fleet.start(
                    program: URL(fileURLWithPath: "/bin/sh"),
                    arguments: ["-c", #"printf 'bad \377 byte' >&2; exit 3"#]
                )
                try fleet.waitForEnd(within: .seconds(30))
            }
        }
        #expect(try #require(error).description.contains("bad \u{FFFD} byte"))
    }

    #if os(Linux)
        /// `/dev/full` is a disk that is full.
        @Test func aFailingRoleEndsAlsoIfItsMessageCannotBeWritten() throws {
            let command = "exec '\(Self.program.url.path)' check-role 2>/dev/full"
            let shell = Fleet.Program(URL(fileURLWithPath: "/bin/sh"), arguments: ["-c", command])
            let error = #expect(throws: FleetError.self) {
                try Fleet.run(program: shell) { fleet in
                    try fleet.start("failing-writer")
                    try fleet.waitForEnd(within: .seconds(30))
                }
            }
            let text = try #require(error).description
            #expect(text.contains("failing-writer, worker 1: \(ProgramExit.status(1))"), "\(text)")
        }
    #endif
}
