import Foundation
import RoundtableFiles

/// What the widget shows.
public struct JournalState: Codable, Sendable {
    public var entries: Int
    public var latest: String?

    public init(entries: Int, latest: String?) {
        self.entries = entries
        self.latest = latest
    }
}

/// What the widget asks the app to do.
public struct AddEntry: OutboxCommand {
    public static let name = "add-entry"
    public static let version = 1

    public var text: String
    public init(text: String) { self.text = text }
}

/// Where the two programs meet: a folder. On Apple's systems it is in an App Group: `AppGroup.url(_:named:)`.
public struct JournalFiles {
    public let database: URL
    public let snapshot: SnapshotFile<JournalState>
    private let sender: String

    /// - parameter writer: how the program is named to the other one.
    public init(in folder: URL, as writer: String) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        database = folder.appendingPathComponent("journal.sqlite")
        snapshot = SnapshotFile(at: folder.appendingPathComponent("widget.snapshot"), as: writer)
        sender = writer
    }

    public func outbox() throws -> Outbox { try Outbox(forDatabaseAt: database, as: sender) }
}
