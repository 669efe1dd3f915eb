import Foundation
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// Torn, truncated, flipped, empty and foreign files, and what is no file, in every place, while everything runs.
    @Suite struct StrayFiles {
        /// The model is simple: a sender's commands 1, 2, 3 … are applied once each, in this order, whatever lies about (rules X1, X4, X6, X9, X10),
        /// and the snapshot file shows all of them in the end (V5 to V8). The stray commands carry the number 0, which no process submits.
        @Test(.long(), .timeLimit(.minutes(10))) func everywhere() throws {
            let (count, last) = isLongRun ? (4, 3000) : (4, 150)
            var random = SeededGenerator()
            try PeerFleet.run(inMemory: true) { fleet in
                let state = fleet.folder.appendingPathComponent("snapshots/state")
                try FileManager.default.createDirectory(
                    at: state.deletingLastPathComponent(),
                    withIntermediateDirectories: false
                )
                let file = SnapshotFile<PeerSnapshotValue>(at: state, as: "test")
                let log = fleet.folder.appendingPathComponent("values").path
                let follower = try fleet.spawn("follower")
                try follower.call(.snapshotFile(.follow(path: state.path, log: log)))
                func newOwner(_ number: Int) throws -> Peer {
                    let owner = try fleet.spawn("owner-\(number)")
                    try owner.send(.ownOutbox(path: fleet.database.path, publishingTo: state.path))
                    return owner
                }
                var (owners, owner) = (1, try newOwner(1))
                let senders = (1...count).map { MortalSender($0, fleet, pauseMilliseconds: isLongRun ? 4 : 20) }
                for sender in senders { try sender.live(fleet, through: last) }
                var thrower = try StrayFileThrower(fleet, state: state, senders: count, last: last)
                let deadline = ContinuousClock.now + .seconds(isLongRun ? 500 : 100)
                while senders.contains(where: { $0.acknowledged < last }) {
                    guard ContinuousClock.now < deadline else {
                        let replies = senders.map { try? $0.peer?.reply(within: .milliseconds(1)).message }
                        throw TestKitError("hangs: acknowledged \(senders.map(\.acknowledged)) of \(last); \(replies)")
                    }
                    usleep(UInt32.random(in: 0..<4000, using: &random))
                    switch Int.random(in: 0..<1000, using: &random) {
                    case 0..<4:
                        try senders.randomElement(using: &random)!.live(fleet, through: last)
                    case 4..<7:
                        owner.process.end()
                        owners += 1
                        owner = try newOwner(owners)
                    default:
                        thrower.throwOne(using: &random)
                    }
                    for sender in senders { try sender.checkIsWell(through: last) }
                    guard owner.process.isRunning, follower.process.isRunning else {
                        throw TestKitError("ended: \(owner.process.errorText) \(follower.process.errorText)")
                    }
                }
                for sender in senders { sender.peer?.process.end() }
                try eventually("everything is applied", within: .seconds(60)) {
                    let contents = try CommandOutbox.contents(forDatabaseAt: fleet.database)
                    return contents.waiting.isEmpty && contents.unreadable.isEmpty
                }
                let thrown = thrower.counts.values.reduce(0, +)
                print("\(thrown) stray files in \(thrower.counts.count) kinds and places; \(owners) owners")
                #expect(thrown > 100, "too few were thrown")

                // A program that asks is answered, where nothing prevents it.
                let asker = try CommandOutbox(forDatabaseAt: fleet.database, as: "asker")
                for _ in 0..<20 {
                    let command = PeerCommandEntry(
                        sender: .random(in: 1...count, using: &random),
                        n: .random(in: 1...last, using: &random)
                    )
                    if thrower.blockedAnswers.contains(command.id) { continue }
                    #expect(try asker.outcome(of: command.id, within: .seconds(20)) == .applied)
                }
                // The next owner repairs what was thrown onto the snapshot file last, except a file of another program (V10): that program must
                // remove it.
                owner.process.end()
                if thrower.isForeignInPlaceOfSnapshot {
                    let found = try [UInt8](Data(contentsOf: state))
                    #expect(throws: SnapshotFileError.foreignFile(path: state.path)) {
                        try file.write(PeerSnapshotValue(number: 0, size: 1))
                    }
                    #expect(try [UInt8](Data(contentsOf: state)) == found)
                    try FileManager.default.removeItem(at: state)
                }
                _ = try newOwner(owners + 1)
                do {
                    try eventually("the snapshot shows all", within: .seconds(20)) {
                        try file.read().value?.number == count * last && ProgressFile.count(at: log) == count * last
                    }
                } catch {
                    let bytes = (try? Data(contentsOf: state).prefix(16)).map(Array.init)
                    let received = ProgressFile.count(at: log)
                    throw TestKitError("\(error): \(try file.read()), begins with \(bytes ?? []), received \(received)")
                }
                for peer in fleet.peers where peer.name.hasPrefix("owner") { peer.process.end() }
                for sender in senders { try fleet.expectOnceInOrder(sender: sender.number, through: last) }
                try fleet.expectNothingSetAside()
                let contents = try CommandOutbox.contents(forDatabaseAt: fleet.database)
                #expect(contents.waiting.isEmpty && contents.unreadable.isEmpty)
            }
        }
    }
}

/// Puts things where they do not belong.
private struct StrayFileThrower {
    private enum Place: String, CaseIterable {
        case commands, new, questions, answers, damaged, owners, outbox, beside, snapshot
    }

    private enum Kind: String, CaseIterable {
        case empty, noise, database, truncated, flipped, grown, folder, pipe, socket, linkToNothing, linkToItself
    }

    private let outbox: String
    private let state: String
    private let senders: Int
    private let last: Int
    /// Of each sender, a whole command, as it would have it.
    private let templates: [[UInt8]]
    private let snapshot: [UInt8]
    private(set) var counts: [String: Int] = [:]
    /// What was thrown there last has been no snapshot of any program.
    var isForeignInPlaceOfSnapshot: Bool {
        // By now, an owner may have replaced what was thrown before.
        let beginning = (try? Data(contentsOf: URL(fileURLWithPath: state)))?.prefix(6) ?? Data()
        let differing = zip(beginning, "RTSNAP".utf8).count { $0 != $1 }
        return differing > (beginning.count < 6 ? 0 : 1)
    }
    /// Commands at whose question or answer something lies that is no file.
    private(set) var blockedAnswers: Set<UUID> = []

    init(_ fleet: PeerFleet, state: URL, senders: Int, last: Int) throws {
        outbox = fleet.database.path + "-outbox"
        self.state = state.path
        self.senders = senders
        self.last = last
        let scratch = fleet.folder.appendingPathComponent("scratch")
        try FileManager.default.createDirectory(at: scratch, withIntermediateDirectories: false)
        templates = try (1...senders).map { sender in
            let url = scratch.appendingPathComponent("\(sender).sqlite")
            try CommandOutbox(forDatabaseAt: url, as: "sender-\(sender)").submit(PeerCommandEntry(sender: sender, n: 0))
            let waiting = try CommandOutbox.contents(forDatabaseAt: url).waiting
            return [UInt8](try Data(contentsOf: URL(fileURLWithPath: try #require(waiting.first).path)))
        }
        let url = scratch.appendingPathComponent("state")
        try SnapshotFile<PeerSnapshotValue>(at: url, as: "test").write(PeerSnapshotValue(number: -1, size: 300))
        snapshot = [UInt8](try Data(contentsOf: url))
    }

    mutating func throwOne(using random: inout SeededGenerator) {
        let place = Place.allCases.randomElement(using: &random)!
        let kind = Kind.allCases.randomElement(using: &random)!
        let sender = Int.random(in: 1...senders, using: &random)
        let path = path(in: place, kind, sender, using: &random)
        // No program replaces a folder by a file, so that nothing could be published there any more.
        if place == .snapshot, [.folder, .pipe, .socket].contains(kind) { return }
        let template = place == .snapshot || place == .beside ? snapshot : templates[sender - 1]
        put(kind, at: path, template, replacing: place == .snapshot, using: &random)
        counts["\(place) \(kind)", default: 0] += 1
    }

    private mutating func path(
        in place: Place,
        _ kind: Kind,
        _ sender: Int,
        using random: inout SeededGenerator
    ) -> String {
        let noise = String(random.next(), radix: 36)
        switch place {
        case .commands:
            if Int.random(in: 0..<8, using: &random) == 0 {
                return outbox + "/commands/" + [".DS_Store", "\(noise).command", "é\(noise)"].randomElement(
                    using: &random
                )!
            }
            // As one that is long past, of now, or far ahead.
            let epoch = [0, 1, 2, 5, 9_999_999_999].randomElement(using: &random)!
            let numbers = [Int.random(in: 0...last, using: &random), 999_999_999_999]
            let name = String(
                format: "%010ld.%08x.%012ld.command",
                epoch,
                UInt32.random(in: 0 ... .max, using: &random),
                numbers.randomElement(using: &random)!
            )
            let isStranger = Int.random(in: 0..<4, using: &random) == 0
            return outbox + "/commands/" + (isStranger ? "stranger" : "sender-\(sender)") + "." + name
        case .questions, .answers:
            let command = PeerCommandEntry(sender: sender, n: .random(in: 1...last, using: &random))
            let isFile = [.empty, .noise, .database, .truncated, .flipped, .grown].contains(kind)
            if !isFile { blockedAnswers.insert(command.id) }
            return "\(outbox)/\(place.rawValue)/\(command.id.uuidString)"
        case .new: return "\(outbox)/new/outbox.\(Int.random(in: 1...99999, using: &random))-1-1-\(noise)-1.new"
        case .damaged: return "\(outbox)/damaged/\(noise)"
        case .owners: return "\(outbox)/owners/\(noise).owner"
        case .outbox: return "\(outbox)/\(noise)"
        case .beside: return state.replacing("/state", with: "/.state.1-1-1-\(noise)-1.new")
        case .snapshot: return state
        }
    }

    /// A file is first empty, then in part, then all there: a reader finds it torn meanwhile. What is there already stays, if it does not
    /// replace that. What fails, fails.
    private func put(
        _ kind: Kind,
        at path: String,
        _ template: [UInt8],
        replacing: Bool,
        using random: inout SeededGenerator
    ) {
        if replacing { unlink(path) }
        var bytes = template
        switch kind {
        case .empty: bytes = []
        case .noise: bytes = random.bytes(.random(in: 1...500, using: &random))
        case .database: bytes = Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0, count: 4080)
        case .truncated: bytes.removeLast(.random(in: 1...bytes.count, using: &random))
        case .flipped: bytes[.random(in: bytes.indices, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case .grown: bytes.append(contentsOf: random.bytes(.random(in: 1...9, using: &random)))
        case .folder:
            mkdir(path, 0o755)
            return
        case .pipe:
            mkfifo(path, 0o644)
            return
        case .socket:
            mknod(path, S_IFSOCK | 0o644, 0)
            return
        case .linkToNothing:
            symlink("nothing", path)
            return
        case .linkToItself:
            symlink(path, path)
            return
        }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let half = bytes.count / 2
        write(descriptor, bytes, half)
        bytes.withUnsafeBytes { _ = write(descriptor, $0.baseAddress.map { $0 + half }, bytes.count - half) }
    }
}
