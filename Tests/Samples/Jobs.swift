import GRDB

struct Mail: Codable, Sendable {
    var to: String
}

struct Order: Codable, PersistableRecord, Sendable {
    var customer: String
}

struct Receipt: Codable, PersistableRecord, Sendable {
    var id: String
}

var order: Order { Order(customer: "") }

func deliver(_ mail: Mail, id: Int64) async throws -> Receipt { Receipt(id: "") }

// MARK: Roles

struct Page: Sendable {
    func store(_ db: Database) throws {}
}

var page: Page { Page() }

struct Server: Sendable {
    func nextPage() async throws -> Page? { nil }
}

var server: Server { Server() }
