import Roundtable

/// A diagnosis as text for people.
struct DoctorText {
    private let diagnosis: Diagnosis
    private let isContentChecked: Bool

    init(_ diagnosis: Diagnosis, isContentChecked: Bool) {
        self.diagnosis = diagnosis
        self.isContentChecked = isContentChecked
    }

    var text: String {
        var lines = [diagnosis.path, ""]
        for finding in diagnosis.findings {
            lines.append("  \(Self.mark(finding.severity)) \(finding.severity.rawValue): \(finding.what)")
            if finding.location != diagnosis.path { lines.append("      where  \(finding.location)") }
            if !finding.who.isEmpty {
                lines.append("      who    \(finding.who.map(Self.name).joined(separator: ", "))")
            }
            lines += ["      next   \(finding.next)", ""]
        }
        if !diagnosis.unknowns.isEmpty {
            lines += ["  Not known:"] + diagnosis.unknowns.map { "  - \($0)" } + [""]
        }
        lines.append("  \(summary)")
        return lines.map { $0.visibleLine + "\n" }.joined()
    }

    private var summary: String {
        let counts = SharedDatabase.Severity.allCases.reversed().compactMap { severity -> String? in
            let count = diagnosis.findings.count { $0.severity == severity }
            return count == 0 ? nil : "\(count) \(severity.rawValue)\(count == 1 ? "" : "s")"
        }
        let content = isContentChecked ? "" : " The content was not checked (--check)."
        return (counts.isEmpty ? "Nothing is wrong." : counts.joined(separator: ", ") + ".") + content
    }

    private static func mark(_ severity: SharedDatabase.Severity) -> String {
        switch severity {
        case .info, .notice: "·"
        case .warning: "!"
        case .error: "✗"
        }
    }

    private static func name(_ party: SharingProcess) -> String {
        "\(party.name.map { "'\($0)' " } ?? "")(\(party.pidText)\(party.isParticipant ? "" : ", no participant"))"
    }
}
