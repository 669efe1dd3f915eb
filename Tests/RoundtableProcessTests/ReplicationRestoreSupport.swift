import Foundation
import GRDB
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// A folder with a database, its replica, and what is restored from it, by the real program `litestream`.
final class RestoreWorld {
    /// nil when Litestream is not installed.
    static let litestream: LitestreamProgram? = {
        guard let program = try? LitestreamProgram.find(nil), (try? program.requireVersion()) != nil else { return nil }
        return program
    }()

    private let temporary: TemporaryFolder
    let folder: URL
    private let litestream: LitestreamProgram

    init() throws {
        temporary = try TemporaryFolder()
        folder = temporary.url.resolvingSymlinksInPath()
        litestream = try #require(Self.litestream)
    }

    func path(_ name: String) -> String { folder.appendingPathComponent(name).path }
    var url: String { "file://\(path("replica"))" }

    /// The names beside the restored database.
    func names(in folder: String = "place") throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: path(folder)))
    }

    func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
    }

    func remove(_ name: String) throws {
        if FileManager.default.fileExists(atPath: path(name)) { try FileManager.default.removeItem(atPath: path(name)) }
    }

    // MARK: The database that is replicated

    /// Opens a database as Litestream wants it: in WAL mode, and without checkpoints of its own.
    func open(_ name: String = "source.db") throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
        let queue = try DatabaseQueue(path: path(name), configuration: configuration)
        try queue.inDatabase { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(
                sql: "CREATE TABLE IF NOT EXISTS entry(n INTEGER PRIMARY KEY, time INTEGER NOT NULL, filling BLOB)"
            )
        }
        return queue
    }

    static var now: Int64 { Int64((Date.now.timeIntervalSince1970 * 1000).rounded(.down)) }

    /// Adds the next row, with the time.
    static func addRow(_ queue: DatabaseQueue, filling: Int = 0) throws {
        try queue.write { db in
            try db.execute(
                sql: "INSERT INTO entry (time, filling) VALUES (?, randomblob(?))",
                arguments: [now, filling]
            )
        }
    }

    /// Uploads what is in the database.
    func replicate(_ name: String = "source.db") throws {
        let output = try litestream.run(["replicate", "-once", path(name), url])
        try #require(output.exit == .status(0), "\(output.standardOutput)\(output.standardError)")
    }

    /// Replicates until it is ended, and compacts what it has uploaded all the time.
    func startReplicating() throws -> ProgramRun {
        let configuration = """
            {"dbs": [{"path": "\(path("source.db"))", "monitor-interval": "20ms",
                      "replica": {"url": "\(url)", "sync-interval": "20ms"}}],
             "levels": [{"interval": "300ms"}, {"interval": "1s"}], "snapshot": {"interval": "2s"},
             "l0-retention": "1s", "l0-retention-check-interval": "300ms"}
            """
        return try litestream.start(
            ["replicate", "-config", LitestreamProgram.configurationPath],
            configuration: configuration
        )
    }

    // MARK: Restoring

    struct Result {
        let exit: ProgramExit
        let output: String
        let errors: String

        var json: [String: Any] {
            get throws {
                try #require(exit == .status(0), "\(errors)")
                return try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any])
            }
        }
        /// The time of the restored state.
        var time: RestoreTime {
            get throws { try #require((try json["time"] as? String).flatMap(RestoreTime.init)) }
        }
    }

    func start(_ arguments: [String], environment: [String: String] = [:]) throws -> ProgramRun {
        var launch = ProgramLaunch(try PeerFleet.program(named: "roundtable").path, ["restore", url] + arguments)
        launch.environment.merge(environment) { $1 }
        return try ProgramRun(launch)
    }

    func restore(_ name: String = "place/app.db", _ arguments: String..., environment: [String: String] = [:]) throws
        -> Result
    {
        let run = try start([path(name), "--json"] + arguments, environment: environment)
        let output = try #require(try run.wait(upTo: 60_000), "it does not end")
        return Result(exit: output.exit, output: output.standardOutput, errors: output.standardError)
    }

    /// What a database holds. Opened as a copy, so that nothing is recovered or removed beside it.
    func content(_ name: String = "place/app.db") throws -> Content {
        try makeFolder("copy")
        defer { try? remove("copy") }
        for ending in ["", "-wal"] where FileManager.default.fileExists(atPath: path(name + ending)) {
            try FileManager.default.copyItem(atPath: path(name + ending), toPath: path("copy/copy.db" + ending))
        }
        let queue = try DatabaseQueue(path: path("copy/copy.db"))
        defer { try? queue.close() }
        return try queue.read { db in
            Content(
                integrity: try String.fetchOne(db, sql: "PRAGMA integrity_check") ?? "",
                numbers: try Int.fetchAll(db, sql: "SELECT n FROM entry ORDER BY n"),
                lastTime: try Int64.fetchOne(db, sql: "SELECT max(time) FROM entry") ?? 0
            )
        }
    }

    struct Content: Equatable {
        let integrity: String
        let numbers: [Int]
        let lastTime: Int64
        /// Whole, with all rows up to this one.
        func isWhole(upTo last: Int) -> Bool { integrity == "ok" && numbers == Array(1...max(1, last)) && last > 0 }
    }
}

#if os(Linux)
    /// A library that kills the program `roundtable` before the Nth of its calls that change names of files, or sync them.
    /// It is compiled here, because it belongs to this test alone, and must not be in a product.
    /// It is compiled here, because it belongs to this test alone, and must not come near a product.
    enum KilledAtCall {
        static let variable = "ROUNDTABLE_KILL_AT_CALL"

        private static let calls: [(name: String, parameters: String, arguments: String)] = [
            ("mkdir", "const char *a, unsigned b", "a, b"),
            ("link", "const char *a, const char *b", "a, b"),
            ("linkat", "int a, const char *b, int c, const char *d, int e", "a, b, c, d, e"),
            ("rename", "const char *a, const char *b", "a, b"),
            ("renameat", "int a, const char *b, int c, const char *d", "a, b, c, d"),
            ("renameat2", "int a, const char *b, int c, const char *d, unsigned e", "a, b, c, d, e"),
            ("unlink", "const char *a", "a"),
            ("unlinkat", "int a, const char *b, int c", "a, b, c"),
            ("rmdir", "const char *a", "a"),
            ("fsync", "int a", "a"),
        ]

        private static var source: String {
            """
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <signal.h>
            #include <stdlib.h>
            #include <string.h>
            #include <unistd.h>
            extern char *program_invocation_short_name;

            static void count(void) {
                static int calls = 0;
                const char *last = getenv("\(variable)");
                if (!last || strcmp(program_invocation_short_name, "roundtable") != 0) return;
                if (__sync_add_and_fetch(&calls, 1) == atoi(last)) kill(getpid(), SIGKILL);
            }

            """
                + calls.map { call in
                    """
                    int \(call.name)(\(call.parameters)) {
                        count();
                        return ((int (*)(\(call.parameters))) dlsym(RTLD_NEXT, "\(call.name)"))(\(call.arguments));
                    }

                    """
                }.joined()
        }

        /// - returns: the path of the library.
        static func library(in folder: URL) throws -> String {
            let (file, library) = (folder.appendingPathComponent("kill.c"), folder.appendingPathComponent("kill.so"))
            try source.write(to: file, atomically: true, encoding: .utf8)
            guard let compiler = SlowSync.compiler else { throw TestKitError("there is no C compiler") }
            let arguments = ["-shared", "-fPIC", "-fno-builtin", "-o", library.path, file.path, "-ldl"]
            guard let output = try ProgramRun(ProgramLaunch(compiler.path, arguments)).wait(upTo: 60_000),
                output.exit == .status(0)
            else { throw TestKitError("\(compiler.path) does not compile") }
            return library.path
        }
    }
#endif
