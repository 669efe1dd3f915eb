import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// Names that other users chose, in the commands that messages advise.
@Suite struct ShellQuotingTests {
    @Test(arguments: [
        ("demo.sqlite", "demo.sqlite"), ("my demo.sqlite", "'my demo.sqlite'"), ("it's", #"'it'\''s'"#), ("", "''"),
        ("$HOME/a;b", "'$HOME/a;b'"), ("/a-b_c.d/é", "'/a-b_c.d/é'"), ("a\nb'\\", #"$'a\012b\047\134'"#),
        ("\u{1B}7", #"$'\0337'"#), ("x\u{202E}", #"$'x\342\200\256'"#),
    ])
    func `A word is quoted only if it needs to be`(text: String, quoted: String) { #expect(text.shellQuoted == quoted) }

    private static let names =
        [
            "'\u{301}; touch injected; '\u{301}", "\u{301}'; touch injected; '", "$(touch injected)",
            "`touch injected`", "a\n touch injected\n", "a'\n\\'; touch injected; '", "\u{1B}[2J; touch injected",
            "x\u{202E}y", "-rf", "-\u{301}rf", "\\", "\\'", "a\u{1F}7", "!!", "~", "*", "😀'", "e\u{301}", "\r\n'",
        ] + (1...0xA0).compactMap { Unicode.Scalar($0).map { "'\($0)7\u{301}" } }
        + [0x061C, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069].compactMap {
            Unicode.Scalar($0).map { "a\($0)'\($0)" }
        }

    /// A shell must read each name as the one word that it is, byte by byte, and run nothing of it. If quotes are looked for among
    /// Characters, `'` with a combining accent ends the quotation.
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/bin/bash"), "there is no bash"))
    func `A shell takes what is quoted for one word`() throws {
        let folder = try Folder()
        let list = Self.names.map { "printf '%s\\0' \($0.shellQuoted)" }.joined(separator: "\n")
        let bash = URL(fileURLWithPath: "/bin/bash")
        let result = try Tool.run(["-c", list], in: folder, program: bash)
        #expect(result.code == 0 && result.errors == "", "\(result.errors)")
        let words = Array(result.output.utf8).split(separator: 0, omittingEmptySubsequences: false).dropLast()
        #expect(words.map { Array($0) } == Self.names.map { Array($0.utf8) })
        #expect(try folder.contents.isEmpty, "a command in a name was run")
    }

    /// A shell that does not know `$'…'`, such as the `/bin/sh` of Debian, reads another word there, and runs nothing of it either.
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/bin/dash"), "there is no dash"))
    func `A shell without dollar quotes runs nothing of a name`() throws {
        let folder = try Folder()
        let list = Self.names.map { "printf '%s\\0' \($0.shellQuoted)" }.joined(separator: "\n")
        let dash = URL(fileURLWithPath: "/bin/dash")
        let result = try Tool.run(["-c", list], in: folder, program: dash)
        #expect(result.code == 0 && result.errors == "", "\(result.errors)")
        let words = Array(result.output.utf8).split(separator: 0, omittingEmptySubsequences: false).dropLast()
        #expect(words.count == Self.names.count)
        for (name, word) in zip(Self.names, words) where !name.shellQuoted.utf8.starts(with: "$'".utf8) {
            #expect(Array(word) == Array(name.utf8))
        }
        #expect(try folder.contents.isEmpty, "a command in a name was run")
    }

    /// Nothing that controls a terminal is in the word, and it is one line.
    @Test func `A quoted word shows what it is`() {
        for name in Self.names {
            let isRaw = name.shellQuoted.unicodeScalars.contains { $0.controlsText }
            #expect(!isRaw, "\(Array(name.utf8))")
        }
    }

    /// No program takes a path for an option, also if a combining accent makes one Character of the dash and the accent.
    @Test func `A path does not begin with a dash`() {
        #expect("-rf".shellQuotedPath == "./-rf" && "-r f".shellQuotedPath == "'./-r f'")
        #expect(Array("-\u{301}".shellQuotedPath.utf8) == Array("'./-\u{301}'".utf8))
        #expect("/a/-b".shellQuotedPath == "/a/-b")
    }

    /// The name of a table is a literal in the query of `.schema`, whatever follows its quotes.
    @Test func `Quotes of SQL are found among scalars, too`() {
        let query = Array(SQLSession.statements(of: "'\u{301} OR 1 --").utf8)
        #expect(query.firstRange(of: Array("= '''\u{301} OR 1 --' COLLATE NOCASE".utf8)) != nil)
        #expect("\"a\"\"b\u{301}\"".unquoted("\"") == "a\"b\u{301}" && "\"a".unquoted("\"") == nil)
        #expect(Parameters.value("'it''s'").storage.value as? String == "it's")
    }
}
