import Foundation
import GRDB
import Roundtable

func f(_ w: some DatabaseWriter) throws { try w.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") } }
func smoke() async throws {
    var m = DatabaseMigrator()
    m.registerMigration("v1") { try $0.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY)") }
    let url = URL(fileURLWithPath: CommandLine.arguments[1])
    let db = try await SharedDatabase.open(at: url, schema: Schema(m), as: "smoke")
    try await db.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") }
    try f(db)
    let n = try await db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
    print("rows", n as Any, db.uncoordinatedReason as Any)
    switch try await SharedDatabase.openReadOnly(at: url, schema: Schema(m), as: "w") {
    case .available(let r):
        print("ro", try await r.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } as Any)
        do { try await r.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") } } catch {
            print("expected:", error)
        }
    case .unavailable(.notCreated): print("notCreated")
    case .unavailable(.schemaTooOld), .unavailable(.schemaTooNew): print("other")
    }
    try timing(db, url)
}
func timing(_ db: SharedDatabase, _ url: URL) throws {
    let seconds = 2.0
    func time(_ name: String, _ body: () throws -> Void) rethrows {
        let start = Date(); var n = 0
        while Date().timeIntervalSince(start) < seconds { for _ in 0..<50 { try body(); n += 1 } }
        print(name, Date().timeIntervalSince(start) / Double(n) * 1e6, "µs")
    }
    for _ in 0..<3 {
        try time("write ours") {
            try db.write { try $0.cachedStatement(sql: "INSERT INTO t DEFAULT VALUES").execute() }
        }
    }
    try time("read ours") {
        _ = try db.read { try Int.fetchOne($0.cachedStatement(sql: "SELECT id FROM t WHERE id = 1")) }
    }
    try time("write ours") { try db.write { try $0.cachedStatement(sql: "INSERT INTO t DEFAULT VALUES").execute() } }
    var c = Configuration(); c.busyMode = .timeout(5)
    let pool = try DatabasePool(path: url.path, configuration: c)
    for _ in 0..<3 {
        try time("write pool") {
            try pool.write { try $0.cachedStatement(sql: "INSERT INTO t DEFAULT VALUES").execute() }
        }
        try time("write ours") {
            try db.write { try $0.cachedStatement(sql: "INSERT INTO t DEFAULT VALUES").execute() }
        }
    }
    try time("read pool") {
        _ = try pool.read { try Int.fetchOne($0.cachedStatement(sql: "SELECT id FROM t WHERE id = 1")) }
    }
    try time("write pool") { try pool.write { try $0.cachedStatement(sql: "INSERT INTO t DEFAULT VALUES").execute() } }
}
func contend(_ ours: Bool) throws {
    var m = DatabaseMigrator()
    m.registerMigration("v1") { try $0.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY)") }
    let url = URL(fileURLWithPath: CommandLine.arguments[2])
    var c = Configuration(); c.busyMode = .timeout(5)
    let db: any DatabaseWriter =
        ours
        ? try SharedDatabase.open(at: url, schema: Schema(m), as: "c")
        : try DatabasePool(path: url.path, configuration: c)
    let start = Date(); var n = 0; var longest = 0.0; var errors = 0
    while Date().timeIntervalSince(start) < 1.5 {
        let t = Date()
        do { try db.write { try $0.cachedStatement(sql: "INSERT INTO t DEFAULT VALUES").execute() }; n += 1 } catch {
            errors += 1
        }
        longest = max(longest, Date().timeIntervalSince(t))
    }
    print("commits", n, "longest ms", longest * 1000, "errors", errors)
}
if CommandLine.arguments[1] == "setup" {
    let d = try DatabasePool(path: CommandLine.arguments[2]);
    try d.write {
        try $0.execute(
            sql:
                "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY); INSERT INTO grdb_migrations VALUES ('v1')"
        )
    }
} else if CommandLine.arguments[1] == "contend" {
    try contend(true)
} else if CommandLine.arguments[1] == "pool" {
    try contend(false)
} else {
    try await smoke()
}
