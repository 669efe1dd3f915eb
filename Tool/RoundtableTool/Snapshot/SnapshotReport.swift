import Foundation
import Roundtable
import RoundtableToolSupport

/// The report about a snapshot file.
struct SnapshotReport {
    enum Outcome: String, Encodable {
        case none, foreign, damaged, value
        case tooNew = "too_new"
    }

    let path: String
    let outcome: Outcome
    /// The reason why there is no value.
    let problem: String?
    /// The advice about the problem.
    let next: String?
    /// The header of the file. A damaged file may have one, too.
    let header: SnapshotHeader?
    private let bytes: Data?

    /// The size in bytes of the largest value that is read.
    private static let limit = 1 << 28

    static func store(_ path: String) -> SnapshotStore {
        var options = SnapshotFileOptions()
        options.maximumSize = limit
        return SnapshotStore(URL(fileURLWithPath: path), version: 0, writer: "roundtable", options: options)
    }

    /// - parameter contents: reads the contents of the file.
    init(of store: SnapshotStore, _ contents: () throws -> SnapshotContents) throws {
        path = store.path
        switch try Self.read(contents) {
        case .absent:
            (outcome, problem, header, bytes) = (.none, "there is no such file", nil, nil)
            next = "Start the program that publishes it, or check the path"
        case .damaged(let damage, let found):
            (outcome, problem, header, bytes) = (damage == .foreign ? .foreign : .damaged, "\(damage)", found, nil)
            next = Self.next(after: damage)
        case .newerFormat(let found):
            let problem = "it is of format \(found.format), which this program does not know"
            (outcome, self.problem, header, bytes) = (.tooNew, problem, found, nil)
            next = "Update this program"
        case .whole(let found, let value):
            (outcome, problem, header, bytes) = (.value, nil, found, Data(value))
            next = nil
        }
    }

    /// - throws: `ToolError` if there is something other than a file at the path. A command that only reads does not advise to remove it.
    private static func read(_ contents: () throws -> SnapshotContents) throws -> SnapshotContents {
        do {
            return try contents()
        } catch SnapshotFileError.notAFile(let path, let reason) {
            throw ToolError("\(path): \(reason). Choose another path.")
        }
    }

    private static func next(after damage: SnapshotDamage) -> String {
        switch damage {
        case .foreign: "Check the path: a file that was never a snapshot file is not replaced"
        case .tooLarge: "Publish less: a value of this size is hardly what a snapshot is for"
        case .empty, .truncated, .trailingBytes, .header, .value, .undecodable, .unreadable:
            "The next write replaces it: start the program that publishes it"
        }
    }

    /// The reason why there is no value, and the advice, in one line.
    var complaint: String {
        [path, problem].compactMap(\.self).joined(separator: ": ") + (next.map { ". \($0)." } ?? "")
    }

    // MARK: For people

    /// The lines before the value.
    var lines: [StyledText] {
        var facts: [(String, String)] = []
        if let next { facts.append(("next", next)) }
        if let header {
            facts += [
                ("version", "\(header.version)"), ("sequence", Int(clamping: header.sequence).grouped),
                ("written", "\(PrintedJSON.moment(date(header))), \(age(header))"),
                ("writer", header.writer),
                ("size", "\(Int(clamping: header.length).grouped) bytes, \(encoding(header))"),
            ]
        }
        let words = problem.map { "\(outcome.words): \($0)" } ?? outcome.words
        return [StyledText(path), "", StyledText("  outcome   \(words)", outcome.style)]
            + facts.map { StyledText("  \($0.padded(to: 9)) \($1)") }
    }

    private func date(_ header: SnapshotHeader) -> Date { Date(timeIntervalSince1970: Double(header.time) / 1e9) }

    private func age(_ header: SnapshotHeader) -> String {
        let age = -date(header).timeIntervalSinceNow
        if age < 0 { return "which is to come" }
        switch age {
        case ..<120: return "\(Int(age)) s ago"
        case ..<7200: return "\(Int(age / 60)) min ago"
        case ..<172_800: return "\(Int(age / 3600)) h ago"
        default: return "\(Int(min(age / 86_400, 1e9))) days ago"
        }
    }

    private func encoding(_ header: SnapshotHeader) -> String {
        switch header.encoding {
        case .json: "JSON"
        case .propertyList: "property list"
        case .other: "the program's own encoding"
        }
    }

    // MARK: The value

    /// The value as text for people; nil if there is no value.
    var valueText: String? {
        guard let header, let bytes else { return nil }
        if let pretty = pretty(bytes, header) { return pretty }
        return String(data: bytes, encoding: .utf8)
            ?? "(\(Int(clamping: header.length).grouped) bytes that are no text)"
    }

    private func pretty(_ bytes: Data, _ header: SnapshotHeader) -> String? {
        guard let object = object(bytes, header) else { return nil }
        let text: String?
        switch header.encoding {
        case .json: text = try? PrintedJSON.text(object: object, isPretty: true)
        case .propertyList:
            text = (try? PropertyListSerialization.data(fromPropertyList: object, format: .xml, options: 0))
                .map { String(decoding: $0, as: UTF8.self) }
        case .other: text = nil
        }
        return text?.trimmingCharacters(in: .newlines)
    }

    private func object(_ bytes: Data, _ header: SnapshotHeader) -> Any? {
        switch header.encoding {
        case .json: try? JSONSerialization.jsonObject(with: bytes, options: .fragmentsAllowed)
        case .propertyList: try? PropertyListSerialization.propertyList(from: bytes, format: nil)
        case .other: nil
        }
    }

    // MARK: For programs

    func json(onOneLine: Bool) throws -> String {
        var fields: [String: Any] = ["format": PrintedJSON.format, "path": path, "outcome": outcome.rawValue]
        fields["problem"] = problem
        fields["next"] = next
        if let header {
            fields["file_format"] = header.format
            fields["version"] = header.version
            fields["sequence"] = header.sequence
            fields["time"] = PrintedJSON.moment(date(header))
            fields["writer"] = header.writer
            fields["bytes"] = header.length
            switch header.encoding {
            case .json: fields["encoding"] = "json"
            case .propertyList: fields["encoding"] = "property_list"
            case .other: fields["encoding"] = "other"
            }
            if let bytes { fields["value"] = jsonValue(bytes, header) }
        }
        return try PrintedJSON.text(object: fields, isPretty: !onOneLine)
    }

    /// The value as JSON, or in Base64 if JSON cannot express it.
    private func jsonValue(_ bytes: Data, _ header: SnapshotHeader) -> Any {
        if let object = object(bytes, header), JSONSerialization.isValidJSONObject([object]) { return object }
        return ["base64": bytes.base64EncodedString()]
    }
}

extension SnapshotReport.Outcome {
    fileprivate var words: String {
        switch self {
        case .none: "none"
        case .foreign: "no snapshot file"
        case .damaged: "damaged"
        case .tooNew: "too new"
        case .value: "a whole value"
        }
    }

    fileprivate var style: TextStyle {
        switch self {
        case .value: .plain
        case .none: .warning
        case .foreign, .damaged, .tooNew: .bad
        }
    }
}
