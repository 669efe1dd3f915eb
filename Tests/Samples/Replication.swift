import GRDB

struct Item: Codable, FetchableRecord, TableRecord {}
