import GRDB

enum Thumbnail {
    static func deleteUnused(_ db: Database) throws {}
}

struct Draft: Codable, PersistableRecord {}

var draft: Draft { Draft() }
