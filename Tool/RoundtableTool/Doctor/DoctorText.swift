import Roundtable
import RoundtableToolSupport

/// A diagnosis as text for people.
struct DoctorText {
    private let diagnosis: DatabaseDiagnosis
    private let content: Content

    enum Content {
        case checked
        case notChecked
        /// There is no database.
        case none
    }

    init(_ diagnosis: DatabaseDiagnosis, content: Content) {
        self.diagnosis = diagnosis
        self.content = content
    }

    var text: String { lines.plainText }

    var lines: [StyledText] {
        var lines: [StyledText] = [StyledText(diagnosis.path), ""]
        for (index, finding) in diagnosis.findings.enumerated() {
            let message = "  \(Self.mark(finding.severity)) \(finding.severity.rawValue): \(finding.message)"
            lines.append(StyledText(message, TextStyle(finding.severity)))
            if finding.location != diagnosis.path { lines.append(StyledText("      where  \(finding.location)")) }
            if !finding.processes.isEmpty {
                let names = finding.processes.map(Self.name).joined(separator: ", ")
                lines.append(StyledText("      who    \(names)"))
            }
            // Findings in a row that have the same advice have it once, after the last of them.
            let following = diagnosis.findings.dropFirst(index + 1).first
            if following?.advice == finding.advice, following?.severity == finding.severity { continue }
            lines += [StyledText("      next   \(finding.advice)"), ""]
        }
        if !diagnosis.unknowns.isEmpty {
            lines += ["  Not known:"] + diagnosis.unknowns.map { StyledText("  - \($0)") } + [""]
        }
        let style: TextStyle = diagnosis.severity.map(TextStyle.init) ?? (diagnosis.unknowns.isEmpty ? .good : .plain)
        return lines + [StyledText("  \(summary)", style)]
    }

    private var summary: String {
        let counts = SharedDatabase.Severity.allCases.reversed().compactMap { severity -> String? in
            let count = diagnosis.findings.count { $0.severity == severity }
            return count == 0 ? nil : "\(count) \(severity.rawValue)\(count == 1 ? "" : "s")"
        }
        return (counts.isEmpty ? "Nothing is wrong." : counts.joined(separator: ", ") + ".") + contentSummary
    }

    private var contentSummary: String {
        switch content {
        case .none: return ""
        case .notChecked: return " The content was not checked (--check)."
        case .checked:
            let isKnown = !diagnosis.unknowns.contains { $0.hasPrefix("The content:") }
            return isKnown && diagnosis.severity != .error ? " The content is intact." : ""
        }
    }

    static func mark(_ severity: SharedDatabase.Severity) -> String {
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
