import Foundation
import GRDB
import Roundtable
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// Text of other programs never reaches a terminal raw: no byte, valid UTF-8 or not, no C1 control, and no mark that changes the order in which
/// the text is shown.
@Suite(.timeLimit(.minutes(2))) struct PrintedTextTests {
    private static let texts: [String] = {
        let bytes = (UInt8.min...UInt8.max).map { String(decoding: [$0], as: UTF8.self) }
        let ranges: [ClosedRange<UInt32>] = [
            0x7F...0xA0, 0x300...0x301, 0x61C...0x61C, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x2069,
            0xFEFF...0xFEFF,
        ]
        let scalars = ranges.joined().compactMap { Unicode.Scalar($0).map { String(Character($0)) } }
        let each = (bytes + scalars).map { "a\($0)b" }
        return each + [
            "\u{1B}]0;title\u{07}\u{1B}[2J", "\u{9B}2J", "'\u{301}\"\u{301}\\\u{301}", "\r\n\u{301}", each.joined(),
        ]
    }()

    /// A way by which text of other programs is shown, and the characters of the layout that may be in it.
    struct Printer: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var allowed = "\n"
        let print: @Sendable (String) throws -> String
    }

    private static func results(_ text: String) throws -> ResultSet {
        let rows = StoredRows(columnCount: 2)
        try rows.append([text.databaseValue, 1.databaseValue])
        return ResultSet(columns: [text, "n"], rows: rows)
    }

    private static func put(_ body: ((String) throws -> Void) throws -> Void) rethrows -> String {
        var all = ""
        try body { all += $0 }
        return all
    }

    private static func travel(_ text: String) -> OutboxTravelStatus {
        var status = OutboxTravelStatus(.ship, store: text, version: text, at: Date())
        status.state = .failing
        status.set(.unreachable, detail: text)
        return status
    }

    private static func reports(_ text: String) -> (ReplicationStatus, ReplicaStatus) {
        var replication = ReplicationStatus(state: .failing, since: Date(), url: text)
        replication.set(.message, detail: text)
        var replica = ReplicaStatus(state: .failing, since: Date(), url: text)
        replica.transaction = text
        replica.set(.message, detail: text)
        return (replication, replica)
    }

    private static func fence(_ text: String) -> FenceStatus {
        var fence = FenceStatus(since: Date())
        (fence.host, fence.path) = (text, text)
        return fence
    }

    static let printers: [Printer] = [
        Printer(testDescription: "a line", allowed: "") { $0.visibleLine },
        Printer(testDescription: "a text", allowed: "\n\t") { $0.visibleText },
        Printer(testDescription: "a claim", allowed: "") { $0.claim },
        Printer(testDescription: "a word of a shell", allowed: "") { $0.shellQuoted },
        Printer(testDescription: "an error in a pipe", allowed: "") {
            String(Terminal.complaint($0, width: nil).dropLast())
        },
        Printer(testDescription: "an error") { Terminal.complaint($0, width: 40) },
        Printer(testDescription: "a report") { TerminalText.fitted($0, to: 40) },
        Printer(testDescription: "lines of a report") {
            TerminalText.fitted([StyledText($0, .bad)], to: 40, isColoured: false)
        },
        Printer(testDescription: "a styled line", allowed: "") { StyledText($0, .warning).text(isColoured: false) },
        Printer(testDescription: "a table") { text in
            var table = TextTable(columns: [(text.visibleLine, .left)])
            table.rows = [[text]]
            return table.lines(in: 40).joined(separator: "\n")
        },
        Printer(testDescription: "rows of sql") { text in try put { try results(text).writeText(width: nil, $0) } },
        Printer(testDescription: "columns of sql") { text in try put { try results(text).writeColumnLines($0) } },
        Printer(testDescription: "CSV on a terminal") { text in
            try put { try results(text).writeCSV(isForPeople: true, $0) }
        },
        Printer(testDescription: "JSON of sql") { text in try put { try results(text).writeJSONLines($0) } },
        Printer(testDescription: "JSON") { PrintedJSON.text([$0: $0]) },
        Printer(testDescription: "pretty JSON") { PrintedJSON.text([$0: $0], isPretty: true) },
        Printer(testDescription: "JSON of an object") { try PrintedJSON.text(object: [$0: $0], isPretty: true) },
        Printer(testDescription: "choices of completion", allowed: "") {
            LineReader.listed([$0, $0], in: 40).joined()
        },
        Printer(testDescription: "a completed word", allowed: "") { text in
            var editor = LineEditor { _ in ["a\(text)"] }
            _ = editor.handle(.character("a"))
            _ = editor.handle(.tab)
            return editor.row(columns: 60).text
        },
        Printer(testDescription: "a line of the history", allowed: "") { text in
            var editor = LineEditor(history: [text])
            _ = editor.handle(.up)
            return editor.row(columns: 60).text
        },
        Printer(testDescription: "findings") {
            DoctorText(DatabaseDiagnosis(ofOutboxAt: $0, [travel($0)]), content: .none).text
        },
        Printer(testDescription: "JSON of findings") {
            PrintedJSON.text(DatabaseDiagnosis(ofOutboxAt: $0, [travel($0)]), isPretty: true)
        },
        Printer(testDescription: "a way of an outbox", allowed: "\n\t") {
            Terminal.complaint(OutboxTravelText.line(travel($0), at: Date()), width: nil)
        },
        Printer(testDescription: "a replication") {
            let (replication, replica) = reports($0)
            let lines = [
                ReplicationText.line(replication, at: Date()), ReplicaText.line(replica, at: Date()),
                fence($0).lines.what,
            ]
            return lines.map { Terminal.complaint($0, width: nil) }.joined()
        },
    ]

    @Test(arguments: printers) func nothingControlsTheTerminal(_ printer: Printer) throws {
        let allowed = Set(printer.allowed.unicodeScalars)
        for text in Self.texts {
            let shown = try printer.print(text)
            let raw = shown.unicodeScalars.filter { $0.controlsText && !allowed.contains($0) }
            if !raw.isEmpty {
                Issue.record("\(Array(text.utf8).prefix(8)): \(raw.map { String($0.value, radix: 16) }) were printed")
            }
        }
    }

    /// A name with line ends and escapes stays in the one line of its error, so it cannot pass for another message.
    @Test(arguments: [
        ["status"], ["doctor"], ["watch"], ["history"], ["top", "--once"], ["top", "a.db", "--every"], ["snapshot"], [],
        ["sql", "a.db", "SELECT 1", "--param"], ["restore", "file:///none", "x.db", "--litestream"],
    ])
    func aNameBreaksNoLine(_ verb: [String]) throws {
        let folder = try Folder()
        let name = "no\n\u{1B}[2Jroundtable: all is well\r\u{202E}\u{85}\u{2028}.db"
        let result = try Tool.run(verb + [name], in: folder)
        #expect(result.code != 0 && result.errors.hasPrefix("roundtable: "), "\(result)")
        let controls = result.errors.unicodeScalars.filter(\.controlsText).map(\.value)
        #expect(controls == [10], "\(result)")
    }

    /// Programs get the values as they are, because an escape stands for its character.
    @Test func jsonKeepsTheValue() throws {
        for text in Self.texts {
            let forms = [
                PrintedJSON.text(["key": text]), try PrintedJSON.text(object: ["key": text], isPretty: true),
            ]
            for json in forms {
                let value = try JSONDecoder().decode([String: String].self, from: Data(json.utf8))["key"]
                #expect(value.map { Array($0.utf8) } == Array(text.utf8), "\(json)")
            }
            let row = try Self.put { try Self.results(text).writeJSONLines($0) }
            let object = try JSONSerialization.jsonObject(with: Data(row.utf8)) as? [String: Any]
            let values = (object?.values.compactMap { $0 as? String } ?? []).map { Array($0.utf8) }
            #expect(values == [Array(text.utf8)], "\(row)")
        }
    }

    /// `snapshot` shows a value that another program has published, in each of its forms.
    @Test func aSnapshotOfAnotherProgram() throws {
        let folder = try Folder()
        let all = try #require(Self.texts.last)
        let file = SnapshotFile<[String: String]>(at: URL(fileURLWithPath: folder.path("a.snapshot")), as: "app")
        let _: SnapshotInfo = try file.write(["key": all])
        for arguments in [["--json"], ["--json", "--watch", "--count", "1"], ["--value"], []] {
            let result = try Tool.run(["snapshot", "a.snapshot"] + arguments, in: folder)
            #expect(result.code == 0, "\(result.errors)")
            let raw = result.output.unicodeScalars.filter { $0.controlsText && $0 != "\n" }
            #expect(raw.isEmpty, "\(arguments): \(raw.map { String($0.value, radix: 16) })")
        }
        let value = try Tool.run("snapshot", "a.snapshot", "--json", in: folder).json?["value"] as? [String: String]
        #expect(value?["key"].map { Array($0.utf8) } == Array(all.utf8))
    }

    /// What is drawn takes the columns that the cursor is moved by.
    @Test func theCursorIsBehindTheText() {
        var editor = LineEditor(history: ["a\u{1B}[2J\u{202E}b\u{9B}"])
        _ = editor.handle(.up)
        let row = editor.row(columns: 60)
        #expect(row.text == "a·[2J·b·" && row.cursor == row.text.displayWidth)
    }
}
