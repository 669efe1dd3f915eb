import GRDB
import Roundtable

struct Message: Codable, FetchableRecord, PersistableRecord, Identifiable {
    var id: Int64
}

struct Contact: Codable, FetchableRecord, PersistableRecord {}

/// As a `UICollectionView` and its data source.
struct MessageList {
    func apply(_ changes: ViewChanges?, _ contents: ViewContents) {}
}

var list: MessageList { MessageList() }
var unreadFirst: MaterializedView { fatalError() }

struct Person: Codable, Sendable {
    var name: String
}
