import Foundation
import RoundtableFiles
import RoundtableKernel

/// What waits in a sender's outbox (rule Z4).
package struct ShippedList: Codable, Equatable, Sendable {
    package struct Command: Codable, Equatable, Sendable {
        let name: String
        package let id: UUID
        /// The size of the file, in bytes.
        let size: Int
    }

    var route: UUID
    /// Those of one sender in the order in which they are to be applied.
    package var commands: [Command] = []
    /// The ids that programs ask about.
    var questions: [UUID] = []
}

extension ShippedList {
    /// The last list of the shipper of an outbox; nil when it has none.
    package static func last(inOutboxAt path: String) throws -> ShippedList? {
        try TravelFile<ShippedList>(at: "\(path)/ship.list", as: "ship").read()?.value
    }
}

/// What the collector knows of a route (rule Z8).
struct RouteRecord: Codable, Equatable, Sendable {
    struct Outcome: Codable, Equatable, Sendable {
        let id: UUID
        let outcome: String
        let reason: OutboxOutcome.SetAsideReason?
        let error: String?
    }

    let route: UUID
    /// The last list that was accepted.
    var list: StoreMark?
    /// The ids that may be handed over, and whose outcomes are not known.
    var handedOver: [UUID] = []
    var outcomes: [Outcome] = []
    /// The names of commands whose objects were missing or not whole.
    var missing: [String] = []

    enum CodingKeys: String, CodingKey {
        case route, list, outcomes, missing
        case handedOver = "handed_over"
    }
}

extension RouteRecord.Outcome {
    /// - returns: nil for an outcome that is not decided.
    init?(_ id: UUID, _ outcome: OutboxOutcome) {
        switch outcome {
        case .applied: self.init(id: id, outcome: "applied", reason: nil, error: nil)
        case .dropped: self.init(id: id, outcome: "dropped", reason: nil, error: nil)
        case .setAside(let reason, let error): self.init(id: id, outcome: "set aside", reason: reason, error: error)
        case .waiting, .noDatabase: return nil
        }
    }

    /// The outcome; nil for one that a later version has added, which is no reason to remove the command.
    var decoded: OutboxOutcome? {
        switch outcome {
        case "applied": .applied
        case "dropped": .dropped
        case "set aside": .setAside(reason ?? .failed, error: error ?? "")
        default: nil
        }
    }
}

/// The claim to be the collector of a store (rule Z10).
struct CollectorClaim: Codable, Equatable, Sendable {
    let id: UUID
    /// The folder of the outbox, in hexadecimal digits: a copy of it is another collector.
    let device: String
    let inode: String
}

/// A snapshot file with one of these values: beside the outbox, or downloaded.
struct TravelFile<Value: Codable & Sendable>: Sendable {
    private let file: SnapshotFile<Value>
    let path: String

    private static var limit: Int { 256 << 20 }

    init(at path: String, as writer: String) {
        var options = SnapshotFileOptions()
        options.maximumSize = Self.limit
        options.followsLinks = false
        file = SnapshotFile(at: URL(fileURLWithPath: path), as: writer, options: options)
        self.path = path
    }

    /// - returns: nil when there is no whole value.
    func read() throws -> (value: Value, mark: StoreMark)? {
        Self.value(of: try file.read())
    }

    /// What was downloaded as an object; nil when there is no whole value.
    static func read(_ object: String, in arrivals: StagingFolder) throws -> (value: Value, mark: StoreMark)? {
        guard let bytes = try arrivals.contents(ofFileAt: object, limit: limit) else { return nil }
        let file = TravelFile(at: arrivals.folder.file(object), as: "").file
        return value(of: file.reading(of: SnapshotContents(bytes, limit: limit)))
    }

    private static func value(of reading: SnapshotReading<Value>) -> (value: Value, mark: StoreMark)? {
        guard case .value(let value, let info) = reading else { return nil }
        return (value, StoreMark(sequence: info.sequence, token: info.token))
    }

    /// The file as it is, to be uploaded.
    func bytes() throws -> [UInt8] {
        guard let bytes = try file.store.bytes() else {
            throw SystemError(call: .open, errno: ENOENT, path: path)
        }
        return bytes
    }

    /// Replaces the value, durably.
    func write(_ value: Value) throws -> StoreMark {
        let info: SnapshotInfo = try file.write(value)
        return StoreMark(sequence: info.sequence, token: info.token)
    }
}
