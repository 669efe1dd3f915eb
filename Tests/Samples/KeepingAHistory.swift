import Roundtable

struct SearchIndex {
    func update(_ changes: [HistoryChange]) async throws {}
    func rebuild(from db: SharedDatabase) async throws {}
}

var searchIndex: SearchIndex { SearchIndex() }
