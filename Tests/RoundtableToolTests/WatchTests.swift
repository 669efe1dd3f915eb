import Foundation
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

@Suite(.timeLimit(.minutes(2))) struct WatchTests {
    @Test func `A commit by Roundtable is reported with author, pid and tables, one to another table is not`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x); CREATE TABLE u(x)", in: folder)
        let watch = try Watch(["a.db", "--json", "--table", "t", "--count", "1"], in: folder)
        try Tool.run("sql", "--as", "bob", "a.db", "INSERT INTO u VALUES (1)", in: folder)
        try Tool.run("sql", "--as", "alice", "a.db", "INSERT INTO t VALUES (1)", in: folder)
        let (code, lines) = watch.end()
        #expect(code == 0)
        let line = try #require(lines.first?.json)
        #expect(lines.count == 1)
        #expect(line["author"] as? String == "alice")
        #expect(line["pid"] as? Int ?? 0 > 0)
        #expect(line["tables"] as? [String] == ["t"])
        #expect(line["foreign"] as? Bool == true)
        #expect(line["detail"] as? String == "commit")
        #expect(line["commits"] as? Int == 1)
        #expect(line["sequence"] as? Int ?? 0 > 0)
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        let time = try Date(try #require(line["time"] as? String), strategy: style)
        #expect(abs(time.timeIntervalSinceNow) < 60)
    }

    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"))
    func `A database that no participant ever opened is watched, and nothing but SQLite's files is made`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: true)
        let watch = try Watch(["a.db", "--json", "--count", "1"], in: folder)
        _ = try Tool.run(["a.db", "INSERT INTO t VALUES (2)"], in: folder, program: Shell.program)
        let (code, lines) = watch.end()
        #expect(code == 0)
        let line = try #require(lines.first?.json)
        #expect(line["tables"] == nil && line["author"] == nil && line["pid"] == nil)
        #expect(line["detail"] as? String == "unrecorded")
        #expect(Set(try folder.contents.keys).isSubset(of: ["a.db", "a.db-wal", "a.db-shm"]))
    }

    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"))
    func `What cannot be watched is said, and nothing is made`() throws {
        let folder = try Folder()
        try Shell.make("rollback.db", in: folder, wal: false)
        try Data().write(to: folder.url.appendingPathComponent("empty.db"))
        let before = try folder.contents
        for (path, expected) in [
            ("rollback.db", "rollback.db: is in rollback-journal mode, which leaves nothing to watch"),
            ("absent.db", "absent.db: there is no such file"),
            ("empty.db", "empty.db: is empty"),
        ] {
            let result = try Tool.run("watch", path, "--timeout", "20", in: folder)
            #expect(result.code == 1)
            #expect(result.output == "")
            #expect(result.errors.contains(expected), "\(result.errors)")
            #expect(result.errors.filter(\.isNewline).count == 1)
        }
        #expect(try folder.contents == before)
        for path in ["rollback.db", "absent.db", "empty.db"] {
            let result = try Tool.run("watch", path, "--wait", "--timeout", "0.1", in: folder)
            #expect(result.code == 1)
            #expect(result.errors.contains("Raise --timeout"), "\(result.errors)")
        }
        #expect(try folder.contents == before)
    }

    @Test func `A table that is not there is an error, a view stands for its tables`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x); CREATE VIEW v AS SELECT x FROM t", in: folder)
        let result = try Tool.run("watch", "a.db", "--table", "nope", "--timeout", "20", in: folder)
        #expect(result.code == 1)
        #expect(result.errors.contains("a.db: there is no table 'nope', but t, v"))
        let watch = try Watch(["a.db", "--json", "--table", "v", "--count", "1"], in: folder)
        try Tool.run("sql", "a.db", "INSERT INTO t VALUES (1)", in: folder)
        #expect(watch.end().code == 0)
    }

    @Test func `A database that is not there yet is waited for`() throws {
        let folder = try Folder()
        let watch = try Watch(["a.db", "--wait"], in: folder, waits: true)
        // It may begin to watch while this is setting the database up, and report that.
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        try watch.waitUntilWatching()
        try Tool.run("sql", "--as", "bob", "a.db", "INSERT INTO t VALUES (1)", in: folder)
        let line = try watch.nextLine { $0.contains("bob (pid ") }
        #expect(line.hasSuffix(" t"), "\(line)")
        watch.signal(SIGINT)
        #expect(watch.end().code == 128 + SIGINT)
    }

    @Test func `Too few changes in time are a failure, any number without --count is not`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        #expect(try Tool.run("watch", "a.db", "--timeout", "0", in: folder).code == 0)
        let result = try Tool.run("watch", "a.db", "--timeout", "0", "--count", "2", in: folder)
        #expect(result.code == 1)
        #expect(result.errors.contains("a.db: fewer than 2 changes within 0 s"))
        #expect(try Tool.run("watch", "a.db", "--count", "0", in: folder).code == 64)
        #expect(try Tool.run("watch", "a.db", "--timeout", "-1", in: folder).code == 64)
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP]) func `A signal ends it, and its place at the table`(signal: Int32)
        throws
    {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let watch = try Watch(["a.db", "--as", "watcher"], in: folder)
        func participants() throws -> String { try Tool.run("status", "a.db", in: folder).output }
        #expect(try participants().contains("watcher"))
        watch.signal(signal)
        #expect(watch.end().code == 128 + signal)
        #expect(try !participants().contains("watcher"))
    }

    /// As nohup(1) ignores it.
    @Test(.enabled(if: Tool.hasEnv, "/usr/bin/env is not there"))
    func `A signal that was ignored at the start does not end it`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let watch = try Watch(["a.db"], in: folder, ignoring: "HUP")
        watch.signal(SIGHUP)
        try Tool.run("sql", "--as", "bob", "a.db", "INSERT INTO t VALUES (1)", in: folder)
        _ = try watch.nextLine { $0.contains("bob (pid ") }
        watch.signal(SIGTERM)
        #expect(watch.end().code == 128 + SIGTERM)
    }

    @Test(arguments: [true, false]) func `It ends when the database is deleted or replaced`(isReplaced: Bool) throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let watch = try Watch(["a.db", "--timeout", "60"], in: folder)
        if isReplaced {
            try Tool.run("sql", "b.db", "CREATE TABLE t(x)", in: folder)
            #expect(rename(folder.path("b.db"), folder.path("a.db")) == 0)
        } else {
            try FileManager.default.removeItem(atPath: folder.path("a.db"))
        }
        let ending = watch.end()
        #expect(ending.code == 1)
        #expect(
            watch.otherErrors
                == "roundtable: \(folder.path("a.db")): the database was deleted, moved away or replaced, and nothing more is committed to what was watched. Watch again.\n"
        )
    }

    @Test func `It ends when no program reads, without a change to print`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let watch = try Watch(["a.db"], in: folder)
        watch.closeOutput()
        #expect(watch.end().code == 0)
    }

    // MARK: Lines

    private static func change(_ sequence: UInt64, _ detail: DatabaseChange.Detail, _ tables: DatabaseChange.Tables)
        -> DatabaseChange
    {
        let isKnown = detail == .commit
        return DatabaseChange(
            sequence: sequence,
            author: isKnown ? "app\u{1B}[2J" : nil,
            pid: isKnown ? 7 : nil,
            isOwn: false,
            tables: tables,
            time: Date(timeIntervalSince1970: 0.25),
            detail: detail
        )
    }

    @Test func `Lines say the author, the place, and the number of commits`() {
        var format = WatchFormat(isFiltered: false)
        let lines = [
            format.text(Self.change(3, .several, .some(["b", "a"]))),
            format.text(Self.change(4, .commit, .some(["t"]))),
            format.text(Self.change(1_234, .several, .some(["t"]))),
            format.text(Self.change(1_235, .unrecorded, .fullDatabase)),
        ].map { $0.dropFirst("00:00:00.250  ".count) }
        #expect(lines[0] == "several programs      a, b (several commits reported as one)")
        #expect(lines[1] == "app?[2J (pid 7)       t")
        #expect(lines[2] == "several programs      t (1,230 commits reported as one)")
        #expect(lines[3] == "unknown program       anything may have changed")
        var filtered = WatchFormat(isFiltered: true)
        _ = filtered.text(Self.change(1, .commit, .some(["t"])))
        #expect(filtered.text(Self.change(9, .several, .some(["t"]))).hasSuffix("(several commits reported as one)"))
    }

    @Test func `Derived tables are not listed, and a commit to nothing else is reported`() throws {
        func tables(_ names: Set<String>) throws -> (text: String, json: [String: Any]) {
            var format = WatchFormat(isFiltered: false)
            let change = Self.change(1, .commit, .some(names))
            let line = try #require(format.json(change).json)
            return (String(format.text(change).dropFirst("00:00:00.250  app?[2J (pid 7)       ".count)), line)
        }
        let inner: Set = [
            "roundtable_ext_in_box", "roundtable_ext_in_box__log", "roundtable_ext_words__words_data",
            "roundtable_extensions",
        ]
        let both = try tables(inner.union(["message", "box"]))
        #expect(both.text == "box, message, and derived tables")
        #expect(both.json["tables"] as? [String] == ["box", "message"] + inner.sorted())
        #expect(both.json["derived_tables"] as? [String] == inner.sorted())
        #expect(try tables(inner).text == "derived tables (in_box, words)")
        #expect(try tables(["roundtable_extensions"]).text == "derived tables")
        let own = try tables(["roundtable_else"])
        #expect(own.text == "roundtable_else" && own.json["derived_tables"] as? [String] == [])
        var format = WatchFormat(isFiltered: false)
        let any = try #require(format.json(Self.change(1, .unrecorded, .fullDatabase)).json)
        #expect(any["tables"] == nil && any["derived_tables"] as? [String] == [])
    }
}

/// A `roundtable watch` that runs.
private final class Watch {
    private let process: Process
    private let output = Pipe()
    private let errors = Pipe()

    /// Returns when it watches; with `waits`, at once.
    init(_ arguments: [String], in folder: Folder, waits: Bool = false, ignoring signal: String? = nil) throws {
        var (program, arguments) = (try Tool.url, ["watch"] + arguments)
        if let signal { (program, arguments) = (Tool.env, ["--ignore-signal=\(signal)", program.path] + arguments) }
        process = try Tool.start(arguments, in: folder.url, program: program, output: output, errors: errors)
        if !waits { try waitUntilWatching() }
    }

    func waitUntilWatching() throws {
        var text = ""
        while !text.contains("watching ") {
            let data = errors.fileHandleForReading.availableData
            try #require(!data.isEmpty, "ended: \(text)")
            text += String(decoding: data, as: UTF8.self)
        }
    }

    /// Waits for a line that is as `isWanted` says.
    func nextLine(_ isWanted: (Substring) -> Bool) throws -> Substring {
        var text = ""
        while true {
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            if let line = lines.dropLast().first(where: isWanted) { return line }
            let data = output.fileHandleForReading.availableData
            try #require(!data.isEmpty, "ended: \(text)")
            text += String(decoding: data, as: UTF8.self)
        }
    }

    /// What it has said after "watching", once it has ended.
    var otherErrors: String {
        String(decoding: (try? errors.fileHandleForReading.readToEnd()).flatMap { $0 } ?? Data(), as: UTF8.self)
    }

    func signal(_ number: Int32) { kill(process.processIdentifier, number) }

    func closeOutput() { try? output.fileHandleForReading.close() }

    /// Waits for the end.
    func end() -> (code: Int32, lines: [String]) {
        let text = (try? output.fileHandleForReading.readToEnd()).flatMap { $0 } ?? Data()
        process.waitUntilExit()
        return (
            process.terminationStatus, String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
        )
    }

    deinit { if process.isRunning { process.terminate() } }
}

extension String {
    fileprivate var json: [String: Any]? {
        (try? JSONSerialization.jsonObject(with: Data(utf8))) as? [String: Any]
    }
}
