import Foundation
import Testing

/// The `sqlite3` shell: a program that knows nothing of turns, and may keep a database open.
final class Shell {
    static let program = URL(fileURLWithPath: "/usr/bin/sqlite3")
    static var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: program.path) }

    private let process: Process
    private let input = Pipe()
    private let output = Pipe()

    init(_ folder: Folder, _ database: String) throws {
        process = try Tool.start(
            ["-batch", database],
            in: folder.url,
            program: Self.program,
            input: input,
            output: output,
            errors: Pipe()
        )
    }

    var pid: Int32 { process.processIdentifier }

    /// Executes SQL, and returns when the shell has.
    func execute(_ sql: String) throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\(sql)\nSELECT 'done';\n".utf8))
        var text = ""
        while !text.contains("done") {
            let data = output.fileHandleForReading.availableData
            try #require(!data.isEmpty, "the sqlite3 shell ended: \(text)")
            text += String(decoding: data, as: UTF8.self)
        }
    }

    func kill() {
        Foundation.kill(pid, SIGKILL)
        process.waitUntilExit()
    }

    deinit { if process.isRunning { kill() } }

    /// Makes a database with a table `t(x)` that holds one row, and closes it.
    static func make(_ name: String, in folder: Folder, wal: Bool) throws {
        let mode = wal ? "PRAGMA journal_mode = WAL;" : ""
        let result = try Tool.run(
            [name, "\(mode) CREATE TABLE t(x); INSERT INTO t VALUES (1);"],
            in: folder,
            program: program
        )
        try #require(result.code == 0, "\(result.errors)")
    }
}
