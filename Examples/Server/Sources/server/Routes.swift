import Foundation
import GRDB
import Hummingbird
import MailShared
import Metrics
import Roundtable
import RoundtableService

/// What a client posts.
private struct NewMail: Decodable {
    var to: String
    var subject: String
    var body: String
}

extension MailStatus: ResponseEncodable {}

func makeRouter(
    _ db: SharedDatabase,
    _ persist: some PersistDriver,
    pause: Duration,
    _ metrics: MetricsRegistry
) -> Router<BasicRequestContext> {
    let router = Router()
    router.add(middleware: MetricsMiddleware())
    router.add(middleware: DatabaseErrors())

    router.post("mails") { request, context in
        let new = try await request.decode(as: NewMail.self, context: context)
        guard new.to.contains("@") else { throw HTTPError(.badRequest, message: "'\(new.to)' is no address") }
        if pause > .zero { try await limit(to: new.to, pause, persist) }
        let mail = Mail(recipient: new.to, subject: new.subject, body: new.body)
        let status = try await db.write { db in
            var mail = mail
            return MailStatus(id: try mail.accept(in: db), state: .waiting)
        }
        // The mail and its job are committed. It is sent later, also if no worker runs now.
        return EditedResponse(status: .accepted, headers: [.location: "/mails/\(status.id)"], response: status)
    }

    router.get("mails/:id") { _, context in
        let id = try context.parameters.require("id", as: Int64.self)
        guard let status = try await db.read({ try MailStatus.fetch(id, in: $0) }) else { throw HTTPError(.notFound) }
        return status
    }

    router.get("health") { _, context in
        let health = await db.health()
        // What is wrong is for the log: it has paths, and the names of processes.
        if !health.reasons.isEmpty { context.logger.warning("health: \(health.reasons)") }
        return EditedResponse(status: health.isReady ? .ok : .serviceUnavailable, response: ["ready": health.isReady])
    }

    router.get("metrics") { _, _ in
        try await db.read { try MailFigures.fetch($0) }.record()
        return Response(
            status: .ok,
            headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: metrics.text))
        )
    }
    return router
}

/// Answers 429 if any of the servers has accepted a mail to the same address within the pause.
private func limit(to address: String, _ pause: Duration, _ persist: some PersistDriver) async throws {
    let key = "mail to \(address)"
    do {
        try await persist.create(key: key, value: true, expires: pause)
    } catch let error as PersistError where error == .duplicate {
        let left = try await persist.getWithTTL(key: key, as: Bool.self)?.ttl ?? .zero
        let seconds = max(1, Int((left / .seconds(1)).rounded(.up)))
        let message = "wait before the next mail to this address"
        throw HTTPError(.tooManyRequests, headers: [.retryAfter: "\(seconds)"], message: message)
    }
}

/// Answers 503 while the database is busy, its disk is full, or this server shuts down, so that clients and proxies repeat the request.
private struct DatabaseErrors: RouterMiddleware {
    func handle(
        _ request: Request,
        context: BasicRequestContext,
        next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as DatabaseError {
            // The message names the process that is in the way. It is for the log and not for clients.
            context.logger.error("\(request.method) \(request.uri.path): \(error)")
            guard [.SQLITE_BUSY, .SQLITE_FULL].contains(error.resultCode) else { throw error }
            throw Self.refusal
        } catch SharedDatabaseError.shuttingDown {
            throw Self.refusal
        }
    }

    private static var refusal: HTTPError {
        HTTPError(.serviceUnavailable, headers: [.retryAfter: "1"], message: "try again later")
    }
}

extension MailFigures {
    /// Sets the gauges that are the same for all servers, because they come from the database.
    fileprivate func record() {
        let counts = [
            ("scheduled", jobs.scheduled), ("waiting", jobs.waiting), ("running", jobs.running), ("done", jobs.done),
            ("dead", jobs.dead), ("cancelled", jobs.cancelled),
        ]
        for (state, count) in counts { Gauge(label: "mail.jobs", dimensions: [("state", state)]).record(count) }
        Gauge(label: "mail.oldest_waiting_seconds").record(oldestWaiting)
        Gauge(label: "mail.deliveries").record(deliveries)
    }
}
