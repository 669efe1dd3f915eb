import GRDB
import Roundtable

struct JobRecord: Codable, FetchableRecord, PersistableRecord {}

struct AddJob: OutboxCommand {
    static let name = "add-job"
    static let version = 1
    var job: JobRecord

    init(_ job: JobRecord) { self.job = job }
}

var job: JobRecord { JobRecord() }
var handlers: OutboxHandlers { OutboxHandlers() }

func restartWhenIdle() {}
