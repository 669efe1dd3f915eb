import Foundation
import GRDB
import Logging
import MailShared
import Roundtable
import RoundtableJobs
import RoundtableService
import ServiceLifecycle

// worker   sends mails until SIGTERM or SIGINT. Start as many as you like

@main
struct Worker {
    static func main() async {
        await runProgram {
            let settings = try Settings()
            let logger = Logger(label: settings.worker)
            let db = try await settings.openDatabase(as: settings.worker)
            let mailServer = try MailServer(folder: settings.folder.appending(path: "sent"), takes: settings.duration)

            let worker = JobWorkerService(Mail.queue, in: db, workers: settings.handlers, logger: logger) { job in
                let id = job.payload.mail
                guard let mail = try await db.read({ try Mail.fetchOne($0, key: id) }) else {
                    // Further attempts are of no use.
                    throw JobRefusal("mail \(id) was deleted")
                }
                // This may be repeated: if the process dies before the job is complete, another attempt sends the mail again. The
                // id is the same then.
                try await mailServer.send(mail, id: id)
                // This is there once.
                try await job.complete { db in
                    try Delivery(mail: id, worker: settings.worker, attempt: job.attempt, date: Date()).insert(db)
                }
            }
            // Services end in the opposite order: first the worker, then the database.
            let group = ServiceGroup(
                configuration: ServiceGroupConfiguration(
                    services: [SharedDatabaseService(db, logger: logger), worker],
                    gracefulShutdownSignals: [.sigterm, .sigint],
                    logger: logger
                )
            )
            ServiceManager.notify("READY=1")
            try await group.run()
        }
    }
}

/// In the place of a mail server: a folder. A mail that is sent again replaces its file, as a mail server that knows ids would do it.
private struct MailServer {
    let folder: URL
    let duration: Duration

    init(folder: URL, takes duration: Duration) throws {
        self.folder = folder
        self.duration = duration
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    func send(_ mail: Mail, id: Int64) async throws {
        try await Task.sleep(for: duration)
        let text = "To: \(mail.recipient)\r\nSubject: \(mail.subject)\r\n\r\n\(mail.body)\r\n"
        try Data(text.utf8).write(to: folder.appending(path: "\(id).eml"), options: .atomic)
    }
}
