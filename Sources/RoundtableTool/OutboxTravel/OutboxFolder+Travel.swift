import Foundation
import RoundtableFiles
import RoundtableKernel

/// The files of shipper and collector in the folder of the outbox (rule Z2).
extension OutboxFolder {
    var shipListPath: String { "\(path)/ship.list" }
    var claimPath: String { "\(path)/collect.claim" }
    var arrivalsPath: String { "\(path)/arrivals" }
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

    /// Creates the folder for downloads, and removes what an earlier round has left there.
    func emptyArrivals() throws {
        let outbox = try OpenFolder(at: path)
        _ = try outbox.makeFolder("arrivals", access: access())
        let arrivals = try outbox.folder("arrivals")
        for name in try arrivals.names() { _ = try arrivals.removeAll(name) }
    }

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
