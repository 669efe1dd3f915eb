import Foundation
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// Rule **Y6**.
@Suite struct LitestreamContinuityTests {
    private typealias Continuity = LitestreamContinuity
    private static let old = Continuity.Salts(first: 7, second: 70)
    private static let new = Continuity.Salts(first: 8, second: 81)
    private let position = Continuity.Position(salts: old, end: 32 + 3 * 4120)

    @Test(
        "The WAL must be emptied when the remembered frame is there, and the WAL was restarted, or will be",
        arguments: [
            (old, old, false, true), (old, old, true, false), (new, old, false, false), (new, old, true, false),
            (new, new, true, true), (new, nil, true, true), (old, nil, false, true),
        ] as [(LitestreamContinuity.Salts, LitestreamContinuity.Salts?, Bool, Bool)]
    )
    func decisions(
        _ header: LitestreamContinuity.Salts,
        _ remembered: LitestreamContinuity.Salts?,
        _ isCopied: Bool,
        _ expected: Bool
    ) {
        let wal = Continuity.WAL(salts: header, remembered: remembered, isCopied: isCopied)
        #expect(Continuity.seesEveryCommit(after: position, in: wal) == expected)
    }

    private static func words(_ values: [UInt32]) -> [UInt8] {
        values.flatMap { value in [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) } }
    }

    /// A header with the fields as the format lays them out; the sizes are 64 bits each.
    private static func header(end: UInt32) -> [UInt8] {
        Array("LTX1".utf8)
            + words([0, 4096, 9, 0, 2, 0, 2, 0, 0, 0, 0, 0, 32, 0, end - 32, 7, 70, 0, 0, 0, 0, 0, 0, 0])
    }

    @Test func headersOfAnyKindAreRead() {
        #expect(Continuity.Position(header: Self.header(end: 12392)) == position)
        #expect(Continuity.Position(header: []) == nil)
        #expect(Continuity.Position(header: [UInt8](repeating: 0, count: 100)) == nil)
        let garbage = Array("LTX1".utf8) + [UInt8](repeating: 255, count: 96)
        #expect(Continuity.Position(header: garbage) == nil)
    }

    @Test func filesAreRead() throws {
        let folder = try TemporaryFolder()
        let database = folder.url.appendingPathComponent("a.db").path
        func seesEveryCommit(isCopied: Bool = false) -> Bool {
            Continuity.seesEveryCommit(ofDatabaseAt: database) { isCopied }
        }
        func writeWAL(_ header: UInt32, _ frames: [UInt32]) throws {
            let bytes =
                Self.words([0x377f_0682, 3_007_000, 4096, 0, header, header * 10, 0, 0])
                + frames.flatMap { Self.words([1, 1, $0, $0 * 10, 0, 0]) + [UInt8](repeating: 0, count: 4096) }
            try Data(bytes).write(to: URL(fileURLWithPath: database + "-wal"))
        }
        #expect(seesEveryCommit(), "without a WAL")
        try writeWAL(7, [7, 7, 7, 7])
        #expect(!seesEveryCommit(), "without a position")

        let level = folder.url.appendingPathComponent(".a.db-litestream/ltx/0")
        try FileManager.default.createDirectory(at: level, withIntermediateDirectories: true)
        for (number, end) in [(1, UInt32(4152)), (2, 12392)] {
            let name = String(repeating: "0", count: 15) + "\(number)"
            try Data(Self.header(end: end)).write(to: level.appendingPathComponent("\(name)-\(name).ltx"))
        }
        #expect(seesEveryCommit())
        #expect(!seesEveryCommit(isCopied: true))
        try writeWAL(8, [8, 8, 7, 7])
        #expect(!seesEveryCommit())
        try writeWAL(8, [8, 8, 8, 7])
        #expect(seesEveryCommit(isCopied: true))
        try writeWAL(8, [8, 8])
        #expect(seesEveryCommit(isCopied: true))
        try Data().write(to: URL(fileURLWithPath: database + "-wal"))
        #expect(seesEveryCommit())
    }
}
