import Foundation
import RoundtableKernel

/// What a fleet did and found.
public struct FleetReport: Sendable, CustomStringConvertible {
    /// The seed of the faults and of the workers' transactions.
    public var seed: UInt64
    /// The one command that runs the test again with this seed.
    public var replay: String
    /// The faults that were carried out, with the seconds since the start.
    public var faults: [String]
    /// The faults that could not be carried out, each with the reason.
    public var skipped: [String]
    /// The locks that suspended workers held.
    public var convictions: [String]
    /// The recorded transactions.
    public var check: CheckReport
    /// What the invariants found (``Invariants``).
    public var findings: [String]

    /// Whether nothing was found.
    public var isClean: Bool { check.isClean && findings.isEmpty && convictions.isEmpty }

    /// In case of a failure, everything that is needed to understand and repeat it.
    public var description: String {
        var lines = ["\(check)"]
        lines += (findings + convictions).map { "finding: \($0)" }
        lines += Dictionary(grouping: skipped, by: \.self).sorted { $0.key < $1.key }.map {
            "skipped \($0.value.count) ×: \($0.key)"
        }
        if isClean {
            lines.append("\(faults.count) faults; seed 0x\(String(seed, radix: 16))")
        } else {
            lines += ["faults:"] + faults.suffix(40).map { "  " + $0 }
            lines.append("seed 0x\(String(seed, radix: 16)); to run it again: \(replay)")
        }
        return lines.joined(separator: "\n")
    }
}

/// A fleet that could not do what a test asked for: a worker failed, or did not end in time.
public struct FleetError: Error, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }
}

/// The command that runs the same test again.
enum ReplayCommand {
    /// - parameter test: the name of the function that runs the fleet, such as `transfersAreSerialized()`.
    static func text(
        seed: UInt64,
        test: String,
        program: [String] = CommandLine.arguments,
        ofTests: Bool = isTestProgram
    ) -> String {
        let seed = "ROUNDTABLE_SEED=0x\(String(seed, radix: 16))"
        if ofTests { return "\(seed) swift test --filter '\(test.prefix { $0 != "(" })'" }
        return ([seed] + program.map(\.shellQuoted)).joined(separator: " ")
    }

    /// Whether this process runs tests.
    private static var isTestProgram: Bool {
        CommandLine.arguments.contains { $0.hasSuffix(".xctest") || $0.contains(".xctest/") }
            || CommandLine.arguments.contains("--testing-library")
    }
}
