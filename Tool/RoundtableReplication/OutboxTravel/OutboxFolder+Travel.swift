import Foundation
import RoundtableFiles
import RoundtableKernel

/// The files of shipper and collector in the folder of the outbox (rule Z2).
extension OutboxFolder {
    var shipListPath: String { "\(path)/ship.list" }
    var claimPath: String { "\(path)/collect.claim" }
    private static let collected = "collected"
    private static let outcomes = ".outcomes"

    func recordPath(of route: UUID) -> String { "\(path)/\(Self.collected)/\(route)\(Self.outcomes)" }

    /// Creates the folder of records, if it is missing.
    ///
    /// - returns: the routes that have records.
    func recordedRoutes() throws -> [UUID] {
        let outbox = try OpenFolder(at: path)
        if try outbox.makeFolder(Self.collected, access: access()) { try outbox.sync() }
        return try outbox.folder(Self.collected).names().compactMap { name in
            guard name.hasSuffix(Self.outcomes) else { return nil }
            return UUID(uuidString: String(name.dropLast(Self.outcomes.count)))
        }
    }

    /// Creates a private folder for what is transferred, which is removed when `body` has returned.
    func withArrivals<T>(_ body: (StagingFolder) throws -> T) throws -> T {
        let arrivals = try StagingFolder(UnfinishedFile.name(Self.arrivals), in: OpenFolder(at: path))
        defer { arrivals.remove() }
        return try body(arrivals)
    }

    /// Removes what was being transferred when a process was killed.
    func removeAbandonedArrivals() throws {
        try StagingFolder.removeAbandoned(in: OpenFolder(at: path), Self.arrivals)
    }

    private static let arrivals = ".arrivals"

    /// Says whether commands are handed over whose outcome is not known (rule Z7). The change is on the disk when this returns.
    func setHandedOver(_ isSo: Bool) throws {
        let outbox = try OpenFolder(at: path)
        let isThere = try outbox.status(ofFile: Self.handedOver) != nil
        guard isThere != isSo else { return }
        if isSo {
            try outbox.makeFile(Self.handedOver, [], access: access(), isDurable: true)
        } else {
            try outbox.removeFile(Self.handedOver)
        }
        try outbox.sync()
    }
}
