import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// The way of a cursor through a real change ring, beside a commit counter that the test turns.
@Suite struct CommitCursorTests {
    /// Commits as SQLite and participants make them, with the true tables of each.
    private final class Database {
        struct Commit {
            let counter: UInt32
            /// The value is nil if no participant recorded it.
            let tables: Set<String>?
        }

        private let path: String
        let block: ControlBlock
        private(set) var counter: UInt32 = 100
        private(set) var commits: [Commit] = []
        private var publishers: [ChangePublisher]

        init(in folder: TemporaryFolder, participants: Int) throws {
            path = folder.file("test.sqlite").path
            block = try ControlBlock.openOrCreate(forDatabaseAt: path, access: nil)
            let block = block
            publishers = try (0..<participants).map { number in
                let traits = ParticipantTraits(role: .readWrite, priority: 1)
                return ChangePublisher(try Participant(in: block, author: "author \(number)", traits: traits))
            }
        }

        /// Opens the block that lies there at that time.
        var blockOpener: @Sendable () -> ControlBlock? {
            { [path] in try? ControlBlock.open(forDatabaseAt: path, writable: false) }
        }

        func makeBlock() throws -> ControlBlock { try ControlBlock.openOrCreate(forDatabaseAt: path, access: nil) }

        func owner(_ number: Int) -> OwnerWord { publishers[number].participant.owner }

        /// - parameter outcome: nil: the participant dies before it says what became of the commit.
        func publish(_ number: Int, _ tables: Set<String>, _ outcome: ChangeRecord.State?, isMade: Bool) {
            let now = MonotonicClock.now - (outcome == nil ? 2 * RingReader.longGrace : 0)
            publishers[number].reserve(counter: counter, tables: tables.isEmpty ? nil : Array(tables), now: now)
            if isMade {
                counter &+= 1
                let isKnown = outcome == .committed && !tables.isEmpty
                commits.append(Commit(counter: counter, tables: isKnown ? tables : nil))
            }
            if let outcome { publishers[number].settle(outcome) }
        }

        func commit(_ number: Int, _ tables: Set<String>) { publish(number, tables, .committed, isMade: true) }

        /// A program makes this commit that does not use the ring.
        func commitByStranger() {
            counter &+= 1
            commits.append(Commit(counter: counter, tables: nil))
        }
    }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func move(_ cursor: inout CommitCursor, to target: UInt32, in database: Database) -> [DatabaseChange] {
        cursor.move(to: target, presentCounter: { database.counter }, owns: { owner, _ in owner == database.owner(0) })
    }

    private func cursor(at counter: UInt32, in database: Database) -> CommitCursor {
        CommitCursor(at: counter, openBlock: database.blockOpener)
    }

    @Test func stopsAtTheGivenCommit() throws {
        let database = try Database(in: folder, participants: 2)
        var cursor = cursor(at: 100, in: database)
        database.commit(0, ["a"])
        database.commit(1, ["b", "c"])
        database.commit(1, ["d"])
        #expect(move(&cursor, to: 100, in: database).isEmpty)
        let changes = move(&cursor, to: 102, in: database)
        #expect(changes.map(\.sequence) == [101, 102])
        #expect(changes.map(\.author) == ["author 0", "author 1"])
        #expect(changes.map(\.tables) == [.some(["a"]), .some(["b", "c"])])
        #expect(changes.map(\.isOwn) == [true, false])
        #expect(changes.allSatisfy { $0.pid == ProcessInfo.processInfo.processIdentifier && $0.detail == .commit })
        #expect(changes.allSatisfy { abs($0.time.timeIntervalSinceNow) < 10 })
        #expect(move(&cursor, to: 103, in: database).map(\.tables) == [.some(["d"])])
        #expect(move(&cursor, to: 103, in: database).isEmpty)
    }

    /// A cursor that begins at an earlier commit than the last leaves nothing out.
    @Test func beginsBetweenCommits() throws {
        let database = try Database(in: folder, participants: 1)
        for table in ["a", "b", "c", "d"] { database.commit(0, [table]) }
        var cursor = cursor(at: 102, in: database)
        #expect(move(&cursor, to: 104, in: database).map(\.tables) == [.some(["c"]), .some(["d"])])
    }

    /// The cursor waits for a publisher that is about to say that it has committed, but not for long for one that died (rule R5).
    @Test func waitsForPublishers() throws {
        let database = try Database(in: folder, participants: 1)
        var cursor = cursor(at: 100, in: database)
        database.publish(0, ["a"], nil, isMade: true)
        #expect(move(&cursor, to: 101, in: database).map(\.detail) == [.unrecorded])
        database.commit(0, ["b"])
        #expect(move(&cursor, to: 102, in: database).map(\.tables) == [.some(["b"])])
    }

    /// Rule G2: a ring whose number has come around to 0, where no record is, is gone back through by a cursor that begins.
    @Test func aRecordWithTheNumberZero() throws {
        let database = try Database(in: folder, participants: 1)
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: database.block.path))
        // The sequence of the ring's last record.
        try handle.seek(toOffset: 896)
        try handle.write(contentsOf: Data(repeating: 0xFF, count: 8))
        try handle.close()
        #expect(database.block.lastSequence == .max)
        database.commit(0, ["a"])
        #expect(database.block.lastSequence == 0)
        var cursor = cursor(at: 100, in: database)
        #expect(move(&cursor, to: 101, in: database).map(\.detail) == [.unrecorded])
        database.commit(0, ["b"])
        #expect(move(&cursor, to: 102, in: database).map(\.tables) == [.some(["b"])])
    }

    @Test func aBlockThatIsReplacedIsFollowed() throws {
        let database = try Database(in: folder, participants: 1)
        var cursor = cursor(at: 100, in: database)
        database.commit(0, ["a"])
        try FileManager.default.removeItem(atPath: database.block.path)
        #expect(move(&cursor, to: 101, in: database).map(\.detail) == [.unrecorded])
        let block = try database.makeBlock()
        let traits = ParticipantTraits(role: .readWrite, priority: 1)
        let publisher = ChangePublisher(try Participant(in: block, author: "new", traits: traits))
        func commit(_ table: String, _ counter: UInt32) {
            publisher.reserve(counter: counter - 1, tables: [table], now: MonotonicClock.now)
            publisher.settle(.committed)
        }
        commit("b", 102)
        #expect(move(&cursor, to: 102, in: database).map(\.detail) == [.unrecorded])
        commit("c", 103)
        #expect(move(&cursor, to: 103, in: database).map(\.tables) == [.some(["c"])])
    }

    /// The reported changes are the committed ones: at least those always, and exactly those where all of them were recorded.
    @Test(arguments: 0..<20) func reportedIsWhatWasCommitted(round: UInt64) throws {
        let given = ProcessInfo.processInfo.environment["ROUNDTABLE_SEED"]
        let seed = given.flatMap { UInt64($0.dropFirst(2), radix: 16) } ?? UInt64.random(in: 0...UInt64.max)
        print("reportedIsWhatWasCommitted(round: \(round)): ROUNDTABLE_SEED=0x\(String(seed, radix: 16))")
        var random = Numbers(state: seed)
        let database = try Database(in: folder, participants: 3)
        var cursor = cursor(at: database.counter, in: database)
        var position = database.counter
        /// Whether the cursor may have lost sight of the ring: it was overrun.
        var mayBeCoarse = false
        var recordsSinceMove = 0
        for step in 0..<2000 {
            let number = Int.random(in: 0..<3, using: &random)
            let tables = Set(
                (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    "table\(Int.random(in: 0..<8, using: &random))"
                }
            )
            recordsSinceMove += 1
            switch Int.random(in: 0..<1000, using: &random) {
            case 0..<700: database.commit(number, tables)
            case 700..<740: database.commitByStranger()
            case 740..<760: database.publish(number, tables, .void, isMade: false)
            case 760..<770: database.publish(number, tables, nil, isMade: Bool.random(using: &random))
            case 770..<780: database.commit(number, [])
            case 780:
                for _ in 0..<1500 { database.commit(number, tables) }
                recordsSinceMove += 1500
            default:
                // The target is a moment that has passed, or is now.
                let target = UInt32.random(in: position...database.counter, using: &random)
                if recordsSinceMove > Layout.recordCount / 2 { mayBeCoarse = true }
                let found = move(&cursor, to: target, in: database)
                let made = database.commits.filter { $0.counter > position && $0.counter <= target }
                let context =
                    "seed 0x\(String(seed, radix: 16)), step \(step): from \(position) to \(target), found \(found)"
                if made.isEmpty {
                    // The ring may have reported changes of attached databases, too.
                    if recordsSinceMove > Layout.recordCount / 2 { break }
                    #expect(found.isEmpty, "\(context)")
                } else if !mayBeCoarse, made.allSatisfy({ $0.tables != nil }) {
                    #expect(found.map(\.sequence) == made.map { UInt64($0.counter) }, "\(context)")
                    #expect(found.map(\.tableNames) == made.map(\.tables), "\(context)")
                } else {
                    let all = found.map(\.tables).reduce(DatabaseChange.Tables.some([])) { $0.union($1) }
                    for commit in made {
                        switch all {
                        case .fullDatabase: break
                        case .some(let names):
                            #expect(commit.tables.map(names.isSuperset) == true, "\(context)")
                        }
                    }
                    #expect(found.last?.sequence == UInt64(target), "\(context)")
                }
                position = target
                if target == database.counter {
                    mayBeCoarse = false
                    recordsSinceMove = 0
                }
            }
        }
    }

    /// SplitMix64.
    private struct Numbers: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }

    /// One change that stands for several says what all of them say. It is own only if all are: a consumer that leaves out own changes must not miss
    /// another's.
    @Test func mergedChanges() {
        let time = Date(timeIntervalSince1970: 1)
        func change(_ sequence: UInt64, _ author: String, isOwn: Bool, _ table: String) -> DatabaseChange {
            DatabaseChange(
                sequence: sequence,
                author: author,
                pid: 7,
                isOwn: isOwn,
                tables: .some([table]),
                time: time.addingTimeInterval(Double(sequence)),
                detail: .commit
            )
        }
        let (own, other) = (change(1, "a", isOwn: true, "player"), change(2, "b", isOwn: false, "team"))
        for changes in [[own, other], [other, own]] {
            let merged = DatabaseChange.merged(changes)
            #expect(merged.count == 1 && merged[0].isOwn == false && merged[0].author == nil && merged[0].pid == 7)
            #expect(merged[0].tables == .some(["player", "team"]) && merged[0].detail == .several)
            #expect(merged[0].sequence == changes[1].sequence && merged[0].time == changes[1].time)
        }
        #expect(DatabaseChange.merged([own, own])[0].isOwn && DatabaseChange.merged([own, own])[0].author == "a")
        #expect(DatabaseChange.merged([own]) == [own] && DatabaseChange.merged([]).isEmpty)
    }
}
