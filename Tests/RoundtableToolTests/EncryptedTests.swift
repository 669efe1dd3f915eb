import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport
import Testing

/// The tool has no key, and says so.
@Suite(.enabled(if: SQLCipherRequirement.isMet, "\(SQLCipherRequirement.reason)"))
struct EncryptedTests {
    @Test("An encrypted database is called that, and looked at from outside as far as that goes")
    func withoutAKey() throws {
        let folder = try Folder()
        let db = try SharedDatabase.open(
            at: folder.url.appendingPathComponent("a.db"),
            schema: .unmanaged,
            as: "app",
            options: PeerEncryption.rawKey(7).options
        )
        try db.write { try $0.execute(sql: "CREATE TABLE t (x)") }

        let status = try Tool.run("status", "a.db", in: folder)
        #expect(status.code == 0 && status.output.contains("WAL · pages of 4096 B · encrypted"), "\(status.output)")
        #expect(status.output.contains("app") && status.output.contains("-salt 40 B"), "\(status.output)")
        let json = try #require(try Tool.run("status", "a.db", "--json", in: folder).json)
        #expect(json["is_encrypted"] as? Bool == true)

        let doctor = try Tool.run("doctor", "a.db", "--check", in: folder)
        #expect(doctor.output.contains("is encrypted, and this looks at it without a key."), "\(doctor.output)")
        #expect(!doctor.output.contains("..") && !doctor.output.contains("salt"), "\(doctor.output)")

        for arguments in [
            ["sql", "a.db", "SELECT * FROM t"], ["sql", "a.db", "INSERT INTO t VALUES (1)"], ["history", "a.db"],
        ] {
            let refused = try Tool.run(arguments, in: folder)
            #expect(refused.code != 0)
            let line = refused.errors
            #expect(line.contains("a.db: is encrypted, and this tool has no key"), "\(arguments): \(line)")
            #expect(line.split(separator: "\n").count == 1, "\(line)")
        }
        #expect(try db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 0)
        try db.close()
    }

    @Test("The doctor misses the salt, and sees that it is damaged") func salts() throws {
        let folder = try Folder()
        let options = PeerEncryption.rawKey(7).options
        let url = folder.url.appendingPathComponent("a.db")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options)
        try db.write { try $0.execute(sql: "CREATE TABLE t (x)") }
        try db.close()
        let salt = folder.url.appendingPathComponent("a.db-salt")
        func finding(_ topic: String) throws -> [String: Any]? {
            let json = try #require(try Tool.run("doctor", "a.db", "--json", in: folder).json)
            let findings = try #require(json["findings"] as? [[String: Any]])
            return findings.first { $0["id"] as? String == topic }
        }
        #expect(try finding("missing_salt") == nil && finding("damaged_salt") == nil)
        try Data(try Data(contentsOf: salt).prefix(20)).write(to: salt)
        #expect(try finding("damaged_salt")?["severity"] as? String == "warning")
        try FileManager.default.removeItem(at: salt)
        #expect(try finding("missing_salt")?["severity"] as? String == "notice")
    }
}
