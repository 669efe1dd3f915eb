import Hummingbird
import Logging
import MailShared
import Metrics
import RoundtableService
import ServiceLifecycle
import SharedPersist

// server   accepts mails until SIGTERM or SIGINT

@main
struct Server {
    static func main() async {
        await runProgram {
            let settings = try Settings()
            let logger = Logger(label: "server")
            let metrics = MetricsRegistry()
            MetricsSystem.bootstrap(metrics)
            // Somebody waits for an answer, so the writes of the server go before those of the workers.
            let db = try await settings.openDatabase(as: "server", priority: .interactive)
            let persist = SharedPersistDriver(db, logger: logger)
            let application = Application(
                router: makeRouter(db, persist, pause: settings.pause, metrics),
                configuration: ApplicationConfiguration(address: .hostname(settings.host, port: settings.port)),
                onServerRunning: { channel in
                    let port = channel.localAddress?.port ?? settings.port
                    ServiceManager.notify("READY=1\nSTATUS=listening on port \(port)")
                },
                logger: logger
            )
            // Services end in the opposite order: first the server, which still answers what it has accepted, then the database. Its service
            // logs events, and records metrics with the registry above.
            let group = ServiceGroup(
                configuration: ServiceGroupConfiguration(
                    services: [SharedDatabaseService(db, logger: logger), persist, application],
                    gracefulShutdownSignals: [.sigterm, .sigint],
                    logger: logger
                )
            )
            try await group.run()
        }
    }
}
