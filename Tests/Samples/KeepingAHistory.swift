import GRDB
import Roundtable

@testable import Common

struct SearchIndex {
    func update(_ changes: [HistoryChange]) async throws {}
    func rebuild(from db: SharedDatabase) async throws {}
}

var searchIndex: SearchIndex { SearchIndex() }

struct Server: Sendable {
    func delete(_ id: String) async throws {}
    func put(_ player: Player) async throws {}
}

var server: Server { Server() }

struct ServerChanges: Sendable {
    func apply(_ db: Database) throws {}
}
