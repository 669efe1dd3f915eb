// What the samples of the documents take for granted: the reader's own values and types. See scripts/samples.py. Nothing of this is ever run.

import Foundation
import GRDB
import Roundtable

/// `…` in a sample: where there is a statement, and where there is a value.
func yourCode() {}
func yourCode<Value>() -> Value { fatalError() }

// MARK: The database

var url: URL { fatalError() }
var schema: SharedSchema { fatalError() }
var db: SharedDatabase { fatalError() }

var migrator: DatabaseMigrator {
    get { fatalError() }
    set {}
}

var options: SharedDatabase.Options {
    get { fatalError() }
    set {}
}

struct Player: Codable, FetchableRecord, PersistableRecord {
    var id: Int64?
    var name: String
}

// MARK: What the program does with it

func show(_ value: Any) {}

struct Log {
    func notice(_ message: String) {}
    func warning(_ message: String) {}
    func error(_ message: String) {}
    func fault(_ message: String) {}
}

var logger: Log { Log() }
