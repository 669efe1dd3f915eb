import GRDB
import Roundtable

var database: SharedDatabase { fatalError() }

struct Page: Sendable {
    func store(_ db: Database) throws {}
}

var page: Page { Page() }

struct Server: Sendable {
    func nextPage() async throws -> Page? { nil }
}

var server: Server { Server() }
