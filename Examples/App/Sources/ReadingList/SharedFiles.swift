import Foundation
import RoundtableFiles

/// The files through which the three processes meet: the container of the App Group, or a folder on Linux. The database is not among them.
public struct SharedFiles: Sendable {
    /// As in the entitlements of the three targets.
    public static let appGroup = "group.com.example.readinglist"

    public let outboxFolder: URL
    private let snapshots: URL

    /// - parameter container: the folder that the three processes share. It is created if it does not exist.
    public init(in container: URL) throws {
        outboxFolder = container.appendingPathComponent("outbox", isDirectory: true)
        snapshots = container.appendingPathComponent("Snapshots", isDirectory: true)
        try FileManager.default.createDirectory(at: snapshots, withIntermediateDirectories: true)
    }

    #if canImport(Darwin)
        public static func ofAppGroup() throws -> SharedFiles {
            let outbox = try AppGroup.url(appGroup, named: "ReadingList/outbox")
            return try SharedFiles(in: outbox.deletingLastPathComponent())
        }
    #endif

    /// - parameter sender: the name of the process: the commands of each are applied in their order.
    public func outbox(as sender: String) throws -> CommandOutbox { try CommandOutbox(at: outboxFolder, as: sender) }

    /// What the app publishes, and the widget shows.
    public func widgetState(as writer: String) -> SnapshotFile<WidgetState> {
        SnapshotFile(at: snapshots.appendingPathComponent("widget"), as: writer)
    }

    /// What the widget remembers of its button.
    var tappedArticles: SnapshotFile<[TappedArticle]> {
        SnapshotFile(at: snapshots.appendingPathComponent("tapped"), as: "widget")
    }
}
