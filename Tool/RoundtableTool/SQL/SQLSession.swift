import ArgumentParser
import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Statements that are typed one after the other. Each runs as a call of its own, so nothing of the database is open between two of them.
struct SQLSession {
    let path: String
    /// Runs statements, and prints what they return.
    let execute: (SQLScript, SQLFormat?) throws -> Void
    /// Reads a column of names.
    let names: (String) throws -> [String]

    private static let prompt = "sql> "
    private static let continued = "...> "
    private static let words = [
        "SELECT", "FROM", "WHERE", "INSERT", "INTO", "VALUES", "UPDATE", "DELETE", "ORDER", "GROUP", "LIMIT", "CREATE",
        "TABLE",
        "INDEX", "PRAGMA", "EXPLAIN",
    ]
    private static let tables =
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name"

    /// Views are left out, because one that is broken would have the query fail.
    private static let columns =
        "SELECT DISTINCT c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY c.name"

    /// The query for the statements that have created a table with its indexes and triggers.
    ///
    /// - parameter table: its name, in quotes or not, or an empty text for all tables.
    static func statements(of table: String) -> String {
        let name = table.unquoted("\"") ?? table
        let condition = name.isEmpty ? "" : " AND tbl_name = \(name.sqlText) COLLATE NOCASE"
        return "SELECT sql || ';' FROM sqlite_master WHERE sql IS NOT NULL\(condition) ORDER BY rowid"
    }

    func run(_ format: SQLFormat?) throws {
        var format = format
        let file = SQLHistoryFile.standard
        let reader = LineReader(history: file?.lines ?? [], complete: complete)
        if Terminal.isInteractive {
            Terminal.write("\(path.visibleLine): statements end with ';', .help explains, Ctrl-D ends.\n")
        }
        var text = ""
        while let line = reader.read(text.isEmpty ? Self.prompt : Self.continued) {
            if reader.wasCancelled {
                text = ""
                continue
            }
            if text.isEmpty, Self.ends(line) { break }
            if text.isEmpty, line.hasPrefix(".") {
                guard command(line, &format) else { break }
                continue
            }
            text += line + "\n"
            let script = SQLScript([text])
            guard !script.statements.isEmpty else {
                text = ""
                continue
            }
            guard sqlite3_complete(text) != 0 else { continue }
            text = ""
            // Ctrl-C ends the program while the statement runs.
            file?.write(reader.history)
            attempt { try execute(script, format) }
        }
        file?.write(reader.history)
    }

    /// What goes wrong with one statement is reported, and the next one can be typed.
    private func attempt(_ body: () throws -> Void) {
        do { try body() } catch { Terminal.complain(ToolError.line(for: error)) }
    }

    /// Whether a line is the word that ends a session in a shell or another database's program. No statement begins with it.
    private static func ends(_ line: String) -> Bool {
        ["exit", "quit"].contains(line.lowercased().trimmingCharacters(in: .whitespaces.union([";"])))
    }

    /// - returns: false when the session ends.
    private func command(_ line: String, _ format: inout SQLFormat?) -> Bool {
        let words = line.split(separator: " ").map(String.init)
        switch words[0] {
        case ".quit", ".exit", ".q": return false
        case ".tables", ".schema": attempt { try list(line) }
        case ".mode":
            let chosen = words.dropFirst().first ?? "table"
            if chosen == "table" {
                format = nil
            } else if let other = SQLFormat(rawValue: chosen) {
                format = other
            } else {
                Terminal.complain("there is no mode '\(chosen)', but table, csv, json, line")
            }
        case ".help":
            Terminal.write(
                """
                .tables          the names of tables and views
                .schema [TABLE]  the statements that created them, or one of them
                .mode MODE       table, csv, json or line (one column a line)
                exit, Ctrl-D     the end
                Tab completes names, ↑ and ↓ go through the history, Ctrl-C gives a statement up.

                """
            )
        default: Terminal.complain("there is no command '\(words[0])'. Try .help")
        }
        return true
    }

    /// Runs `.tables` or `.schema`, also from the command line of the shell.
    func list(_ command: String) throws {
        let words = command.split(separator: " ").map(String.init)
        let argument = words.dropFirst().joined(separator: " ")
        switch words.first {
        case ".tables":
            Terminal.write(try names(Self.tables).map { $0.visibleLine + "\n" }.joined())
        case ".schema":
            let statements = try names(Self.statements(of: argument))
            if statements.isEmpty, !argument.isEmpty { throw ToolError("there is no table '\(argument)'. Try .tables") }
            Terminal.write(statements.map { $0.visibleText + "\n" }.joined())
        default:
            throw ValidationError(
                "'\(words.first ?? command)' is no SQL. Beside SQL, there are .tables and .schema [TABLE]."
            )
        }
    }

    private func complete(_ word: String) -> [String] {
        // Completion is no reason to report an error.
        let found = ((try? names(Self.tables)) ?? []) + ((try? names(Self.columns)) ?? [])
        var seen: Set<String> = []
        return SQLCompletion.words(for: word, names: found.filter { seen.insert($0).inserted }, keywords: Self.words)
    }
}

/// The statements of earlier sessions, in a file that only its user can read: statements may contain what is secret.
struct SQLHistoryFile {
    let path: String
    private static let limit = 1000

    /// `ROUNDTABLE_HISTORY`, or `~/.roundtable_history`; nil when that variable is empty. As in a shell, `~` is `HOME`, and the user's own folder
    /// only without that.
    static var standard: SQLHistoryFile? {
        let variables = ProcessInfo.processInfo.environment
        if let path = variables["ROUNDTABLE_HISTORY"] {
            return path.isEmpty ? nil : SQLHistoryFile(path: path)
        }
        let home = variables["HOME"].flatMap { $0.isEmpty ? nil : $0 } ?? NSHomeDirectory()
        return SQLHistoryFile(path: home + "/.roundtable_history")
    }

    var lines: [String] {
        // A pipe in its place must not wait for a writer.
        guard let file = opened(O_RDONLY | O_NONBLOCK), let data = try? file.readToEnd() else { return [] }
        return String(decoding: data, as: UTF8.self).split(separator: "\n").suffix(Self.limit).map(String.init)
    }

    /// A history that cannot be written is lost, which is no reason for an error.
    func write(_ lines: [String]) {
        let text = lines.suffix(Self.limit).map { $0 + "\n" }.joined()
        guard let file = opened(O_WRONLY | O_NONBLOCK | O_CREAT | O_NOFOLLOW) else { return }
        // Before anything is written: the file may be an older one that others can read.
        guard (try? System.setMode(0o600, ofDescriptor: file.fileDescriptor, path)) != nil,
            (try? file.truncate(atOffset: 0)) != nil
        else { return }
        try? file.write(contentsOf: Data(text.utf8))
    }

    /// - returns: nil when it cannot be opened, is no file, belongs to another user, or has another name: that of a file which is not a history.
    private func opened(_ flags: Int32) -> FileHandle? {
        let descriptor = open(path, flags | O_CLOEXEC, 0o600)
        guard descriptor != -1 else { return nil }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard let status = try? System.status(ofDescriptor: descriptor, path), status.isRegularFile,
            status.st_uid == geteuid(), status.st_nlink == 1
        else { return nil }
        return file
    }
}
