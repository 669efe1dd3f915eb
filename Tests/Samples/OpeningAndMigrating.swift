import Foundation
import GRDB
import Roundtable

@testable import Common

struct JobRecord: Codable, FetchableRecord, PersistableRecord {}

struct AddJob: OutboxCommand {
    static let name = "add-job"
    static let version = 1
    var job: JobRecord

    init(_ job: JobRecord) { self.job = job }
}

var job: JobRecord { JobRecord() }
var handlers: OutboxHandlers { OutboxHandlers() }

var bundledURL: URL { url }

func restartWhenIdle() {}
