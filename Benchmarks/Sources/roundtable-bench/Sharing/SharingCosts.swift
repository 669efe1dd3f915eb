import Foundation
import Roundtable

/// What one call costs, and what the same bytes cost by other means.
enum SharingCost: String, CaseIterable {
    case submit
    case submitDurable = "submit, durable"
    case submitBehindMany = "submit, behind 10,000 that wait"
    case snapshotWrite = "snapshot write"
    case snapshotWriteDurable = "snapshot write, durable"
    case snapshotRead = "snapshot read"
    case databaseWrite = "SharedDatabase.write, one row"
    case rename = "file write, rename"
    case renameDurable = "file write, rename, synced"
    case fileRead = "file read"

    /// What the same bytes cost by the system's calls alone.
    var peer: SharingCost {
        switch self {
        case .submit, .submitBehindMany, .snapshotWrite, .databaseWrite, .rename: .rename
        case .submitDurable, .snapshotWriteDurable, .renameDurable: .renameDurable
        case .snapshotRead, .fileRead: .fileRead
        }
    }
}

/// Does each of them, over and over.
final class SharingCosts {
    private static let waiting = 10_000

    private let durable: SharingPlace
    private let fast: SharingPlace
    private let crowded: SharingPlace
    private var operations: [SharingCost: () throws -> Void] = [:]

    init(in folder: URL) throws {
        durable = try SharingPlace(in: folder, name: "durable", isDurable: true)
        fast = try SharingPlace(in: folder, name: "fast", isDurable: false)
        crowded = try SharingPlace(in: folder, name: "crowded", isDurable: false)
        let database = try SharingPlace(in: folder, name: "database", isDurable: false).open(drainingFor: nil)
        let earlier = try crowded.outbox("earlier")
        for n in 1...Self.waiting { try earlier.submit(AddRow(sender: 1, n: n)) }

        let submits: [(SharingCost, SharingPlace)] = [
            (.submit, fast), (.submitDurable, durable), (.submitBehindMany, crowded),
        ]
        for (cost, place) in submits {
            let outbox = try place.outbox("later")
            operations[cost] = { try outbox.submit(AddRow(sender: 1, n: 1)) }
        }
        for (cost, place) in [(SharingCost.snapshotWrite, fast), (.snapshotWriteDurable, durable)] {
            let file = place.snapshot()
            var n = 0
            operations[cost] = {
                n += 1
                try file.write(RowCount(n))
            }
        }
        let read = fast.snapshot("read")
        try read.write(RowCount(1))
        operations[.snapshotRead] = {
            guard try read.read().value?.n == 1 else { throw WrongResult(side: .ours, what: "a snapshot") }
        }
        operations[.databaseWrite] = {
            try database.write { db in
                try db.cachedStatement(sql: Statements.insert).execute(arguments: [1, Statements.text])
            }
        }
        let plain = PlainFile(folder.appendingPathComponent("plain"))
        operations[.rename] = { try plain.write(isDurable: false) }
        operations[.renameDurable] = { try plain.write(isDurable: true) }
        operations[.fileRead] = { try plain.read() }
    }

    /// - returns: nothing waits afterwards that did not before.
    func measure(_ cost: SharingCost, for duration: Nanoseconds) throws -> LoopSlice {
        let slice = try LoopSlice.measuring(for: duration, operations[cost]!)
        for place in [durable, fast, crowded] {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: place.commands)) ?? []
            for name in names where name.hasPrefix("later.") { unlink("\(place.commands)/\(name)") }
        }
        return slice
    }
}

/// A file that is replaced whole, by as few calls as that takes.
private struct PlainFile {
    private let path: String
    private let folder: String
    private let bytes: [UInt8]

    init(_ url: URL) {
        path = url.path
        folder = url.deletingLastPathComponent().path
        // As many as a command or a small snapshot has.
        bytes = [UInt8](repeating: 7, count: 200)
    }

    func write(isDurable: Bool) throws {
        let descriptor = open(path + ".new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard descriptor >= 0, Foundation.write(descriptor, bytes, bytes.count) == bytes.count,
            !isDurable || fsync(descriptor) == 0, close(descriptor) == 0, rename(path + ".new", path) == 0
        else { throw failure }
        guard isDurable else { return }
        let parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard parent >= 0, fsync(parent) == 0, close(parent) == 0 else { throw failure }
    }

    func read() throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        var buffer = [UInt8](repeating: 0, count: bytes.count + 1)
        guard descriptor >= 0, Foundation.read(descriptor, &buffer, buffer.count) == bytes.count, close(descriptor) == 0
        else { throw failure }
    }

    private var failure: ParticipantProcess.Failure {
        ParticipantProcess.Failure(description: "\(path): \(String(cString: strerror(errno)))")
    }
}
