// For iOS.

import GRDB
import Roundtable
import WidgetKit

struct TodoItem: Codable, FetchableRecord, PersistableRecord {
    var title: String
}

var item: TodoItem { fatalError() }

/// What the timeline of the widget consists of.
struct Entry: TimelineEntry {
    static let openTheAppFirst = Entry(asOf: .now)
    static let placeholder = Entry(asOf: .now)

    var date: Date

    init(_ state: WidgetState? = nil, asOf date: Date) { self.date = date }
}

/// That of a `TimelineProvider`.
typealias Context = TimelineProviderContext

var publisher: SnapshotPublisher {
    get { fatalError() }
    set {}
}
