import GRDB

enum Thumbnail {
    static func deleteUnused(_ db: Database) throws {}
}

struct Draft: Codable, PersistableRecord {}
struct Event: Codable, PersistableRecord {}

var metadataMigrator: DatabaseMigrator { fatalError() }

var draft: Draft { Draft() }
var events: [Event] { [] }
