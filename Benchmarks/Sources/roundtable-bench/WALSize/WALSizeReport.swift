import Foundation

/// What one run of `wal-size` found.
struct WALSizeReport: Encodable {
    let plan: WALSizePlan
    let findings: [WALSizeFindings]
    let machine: Report.Machine

    enum CodingKeys: String, CodingKey {
        case name, seconds, writers, readers, workload, sides, machine
        case hold = "hold_ms"
        case computes = "readers_compute"
        case boundInFrames = "bound_frames"
        case boundInBytes = "bound_bytes"
        case sqliteVersion = "sqlite_version"
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode("wal-size", forKey: .name)
        try container.encode(plan.seconds, forKey: .seconds)
        try container.encode(plan.writers, forKey: .writers)
        try container.encode(plan.readers, forKey: .readers)
        try container.encode(plan.workload, forKey: .workload)
        try container.encode(plan.holdMilliseconds, forKey: .hold)
        try container.encode(plan.computes, forKey: .computes)
        try container.encode(WALSizePlan.boundInFrames, forKey: .boundInFrames)
        try container.encode(plan.boundInBytes, forKey: .boundInBytes)
        try container.encode(Dictionary(uniqueKeysWithValues: findings.map { ($0.side.rawValue, $0) }), forKey: .sides)
        try container.encode(machine, forKey: .machine)
        try container.encode(Report.sqliteVersion, forKey: .sqliteVersion)
    }

    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }

    /// For people.
    func table() -> String {
        let readers = "\(plan.readers) readers that \(plan.computes ? "compute" : "sleep") in transactions of"
        var lines = [
            "wal-size: \(plan.writers) writers (\(plan.workload)), \(readers) \(format(plan.holdMilliseconds)) ms, "
                + "\(format(plan.seconds)) s a side; SQLite \(Report.sqliteVersion), \(machine.cores) cores"
                + (machine.coresUsedByOthers.map { ", of which others used \(format($0))" } ?? ""),
            "The bound is \(WALSizePlan.boundInFrames) frames, \(megabytes(plan.boundInBytes)) MB.",
            "",
        ]
        lines += aligned([Self.heading] + findings.map(row))
        let frozen = findings.compactMap { findings in findings.freeze.map { (findings.side, $0) } }
        if !frozen.isEmpty { lines += ["", "a reader frozen in its transaction, and killed"] + freezes(frozen) }
        for findings in findings {
            if findings.wasTooLarge {
                lines.append("\(findings.side.rawValue): ended after \(format(findings.seconds)) s, at the limit.")
            }
            if findings.unread > 0 {
                lines.append("\(findings.side.rawValue): \(findings.unread) samples could not tell the frames.")
            }
            if let error = findings.firstError { lines.append("\(findings.side.rawValue): first error: \(error)") }
        }
        return lines.joined(separator: "\n")
    }

    private static let heading = [
        "", "frames p50", "p99", "max", "beyond", "MB p50", "p99", "max", "beyond", "tx_per_s", "reads_per_s", "p50_us",
        "p999_us", "max_us", "errors",
    ]

    private func row(_ findings: WALSizeFindings) -> [String] {
        let (frames, bytes, times) = (findings.frames, findings.bytes, findings.times)
        var row = [findings.side.rawValue]
        row += [frames.p50, frames.p99, frames.max].map { "\($0)" } + [percent(frames.beyond)]
        row += [bytes.p50, bytes.p99, bytes.max].map(megabytes) + [percent(bytes.beyond)]
        row += [findings.commits, findings.reads].map { format((Double($0) / findings.seconds).rounded()) }
        row += [times.percentile(0.5), times.percentile(0.999), times.longest].map { format($0.microseconds) }
        row.append("\(findings.errors)")
        return row
    }

    private func freezes(_ freezes: [(side: Side, freeze: WALSizeFindings.Freeze)]) -> [String] {
        func seconds(_ value: Double?) -> String { value.map { String(format: "%.2f", $0) } ?? "never" }
        let heading = [
            "", "frozen s", "max frames", "max MB", "writer told after s", "seen after s", "culprit",
            "frames recovered after s",
            "file recovered after s",
        ]
        return aligned(
            [heading]
                + freezes.map { side, freeze in
                    [
                        side.rawValue, freeze.diedAt.map { seconds($0 - freeze.frozenAt) } ?? "to the end",
                        "\(freeze.maxFrames)", megabytes(freeze.maxBytes), seconds(freeze.toldAfter),
                        seconds(freeze.seenAfter), freeze.culprit ?? "", seconds(freeze.framesRecoveredAfter),
                        seconds(freeze.bytesRecoveredAfter),
                    ]
                }
        )
    }

    private func megabytes(_ bytes: Int) -> String { format(Double(bytes) / 1e6) }
    private func percent(_ share: Double) -> String { String(format: "%.1f %%", share * 100) }
}
