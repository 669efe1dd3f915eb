import Foundation
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// Terms of a replica (rules D of `docs/OPERATIONS-FORMATS.md`).
@Suite struct TermTests {
    private let second = ReplicaTerm(number: 2, token: 0xab)

    /// **D1**: appended to the path, before parameters.
    @Test(arguments: [
        ("file:///srv/replica", "file:///srv/replica/X"),
        ("file:///srv/replica/", "file:///srv/replica/X"),
        ("s3://bucket", "s3://bucket/X"),
        (
            "s3://bucket/app?endpoint=http://host:9000/&region=eu",
            "s3://bucket/app/X?endpoint=http://host:9000/&region=eu"
        ),
        ("sftp://me:secret@host:22/backup#a", "sftp://me:secret@host:22/backup/X#a"),
    ])
    func places(_ url: String, _ expected: String) throws {
        let url = try ReplicaURL(url)
        let place = "roundtable/terms/0000000000000002-00000000000000ab"
        #expect(url.place(of: second).text == expected.replacingOccurrences(of: "X", with: place))
        #expect(url.place(of: .first) == url)
        let claim = "roundtable/claims/0000000000000002"
        #expect(url.place(ofClaim: 2).text == expected.replacingOccurrences(of: "X", with: claim))
        #expect(url.hasTerms)
        #expect(!url.place(of: second).shown.contains("secret"))
    }

    @Test func aBucketOfNATSHasNoTerms() throws {
        #expect(try !ReplicaURL("nats://host:4222/bucket").hasTerms)
    }

    /// **D5**.
    @Test func standings() {
        let claim = TermClaim(second, ofDatabaseAt: "/b")
        func own(_ number: UInt64, _ token: UInt64, isCopy: Bool = false) -> OwnTerm {
            OwnTerm(term: ReplicaTerm(number: number, token: token), isOfThisFile: !isCopy)
        }
        #expect(TermStanding(of: nil, in: nil) == .writer(.first))
        #expect(TermStanding(of: own(0, 0), in: nil) == .writer(.first))
        #expect(TermStanding(of: own(2, 0xab), in: claim) == .writer(second))
        #expect(TermStanding(of: own(2, 0xab, isCopy: true), in: claim) == .stranger(to: claim))
        #expect(TermStanding(of: own(0, 0), in: claim) == .fenced(by: claim))
        #expect(TermStanding(of: own(2, 7), in: claim) == .fenced(by: claim))
        #expect(TermStanding(of: own(1, 7), in: claim) == .fenced(by: claim))
        #expect(TermStanding(of: own(1, 7, isCopy: true), in: claim) == .fenced(by: claim))
        #expect(TermStanding(of: nil, in: claim) == .stranger(to: claim))
    }

    @Test func aClaimIsReadAsItWasWritten() throws {
        let claim = TermClaim(second, ofDatabaseAt: "/Ö \"b\"")
        let (encoder, decoder) = (JSONEncoder(), JSONDecoder())
        encoder.dateEncodingStrategy = .iso8601
        decoder.dateDecodingStrategy = .iso8601
        #expect(try decoder.decode(TermClaim.self, from: encoder.encode(claim)) == claim)
        #expect(second.next.number == 3 && second.next.token != second.next.token)
    }

    /// **D4**: one entry a URL, and credentials in none.
    @Test func theRecordKeepsTheTermsOfEachURL() throws {
        let folder = try Folder()
        let database = folder.path("app.db")
        try Data("a".utf8).write(to: URL(fileURLWithPath: database))
        let record = TermRecord(besideDatabaseAt: database)
        let (one, other) = (try ReplicaURL("s3://a/b?secret-key=hunter2"), try ReplicaURL("file:///b"))
        #expect(try record.term(at: one) == nil)
        try record.set(second, at: one, ofDatabaseAt: database)
        try record.set(.first, at: other, ofDatabaseAt: database)
        #expect(try record.term(at: one) == OwnTerm(term: second, isOfThisFile: true))
        #expect(try record.term(at: ReplicaURL("s3://a/b/?secret-key=other"))?.term == second, "a / at the end")
        #expect(try record.term(at: other)?.term == .first)
        let file = URL(fileURLWithPath: "\(database)-term")
        let bytes = try Data(contentsOf: file)
        #expect(!String(decoding: bytes, as: UTF8.self).contains("hunter2"))
        try FileManager.default.moveItem(atPath: database, toPath: folder.path("old"))
        try FileManager.default.copyItem(atPath: folder.path("old"), toPath: database)
        #expect(try record.term(at: one) == OwnTerm(term: second, isOfThisFile: false), "a copy")
        try bytes.prefix(100).write(to: file)
        let error = #expect(throws: ToolError.self) { try record.term(at: one) }
        #expect(error?.description.contains("app.db-term: says which writer's term") == true, "damaged is not absent")
    }

    /// URLs that no replica can have are refused, with what to write instead.
    @Test(arguments: [
        ("http://x/y", "no replicas of the kind 'http'"),
        ("file://tmp/x", "file:///tmp/x"),
        ("file:x", "or file:///"),
        ("s3://", "has no bucket"),
        ("sftp:///x", "has no host"),
        ("", "needs a scheme"),
    ])
    func mistakes(_ url: String, _ text: String) {
        let error = #expect(throws: ToolError.self) { try ReplicaURL(url) }
        #expect(error?.description.contains(text) == true, "\(error.debugDescription)")
    }

    /// Litestream would encode the characters of a file URL, and use a folder of that name.
    @Test(arguments: [
        ("file:///a b/ı ö", "/a b/ı ö"), ("file:///a%20b", "/a b"), ("file:///a%2", "/a%2"),
        ("file:///a?b#c", "/a?b#c"),
    ])
    func foldersOfFileURLs(_ url: String, _ folder: String) throws {
        #expect(try ReplicaURL(url).folder == folder)
        #expect(try ReplicaURL(url).appending("x").folder == folder + "/x")
    }
}
