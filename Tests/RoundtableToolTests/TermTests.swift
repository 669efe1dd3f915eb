import Foundation
import Testing

@testable import RoundtableTool

/// Terms of a replica (rules D of `docs/PROTOCOL-FILES.md`).
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
        #expect(TermStanding(of: nil, in: nil) == .writer(.first))
        #expect(TermStanding(of: .first, in: nil) == .writer(.first))
        #expect(TermStanding(of: second, in: claim) == .writer(second))
        #expect(TermStanding(of: .first, in: claim) == .fenced(by: claim))
        #expect(TermStanding(of: ReplicaTerm(number: 2, token: 7), in: claim) == .fenced(by: claim))
        #expect(TermStanding(of: ReplicaTerm(number: 1, token: 7), in: claim) == .fenced(by: claim))
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
        let record = TermRecord(besideDatabaseAt: folder.path("app.db"))
        let (one, other) = (try ReplicaURL("s3://a/b?secret-key=hunter2"), try ReplicaURL("file:///b"))
        #expect(try record.term(at: one) == nil)
        try record.set(second, at: one)
        try record.set(.first, at: other)
        #expect(try record.term(at: one) == second)
        #expect(try record.term(at: other) == .first)
        #expect(
            try !String(decoding: Data(contentsOf: folder.url.appendingPathComponent("app.db-term")), as: UTF8.self)
                .contains("hunter2")
        )
    }
}
