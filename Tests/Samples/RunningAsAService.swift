import GRDB
import RoundtableJobs
import ServiceLifecycle

struct Mail: Codable, Sendable {
    var to: String
}

let mails = JobQueue("mail", of: Mail.self)

func deliver(_ mail: Mail) async throws {}

struct Server: Service {
    func run() async throws {}
}

var server: Server { Server() }
