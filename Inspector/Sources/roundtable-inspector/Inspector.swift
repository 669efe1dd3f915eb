import ArgumentParser
import Foundation
import Hummingbird
import Logging
import NIOCore

@main
struct Inspector: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "roundtable-inspector",
        abstract: "Show a shared database live, as a page for the browser of this machine.",
        discussion: """
            Prints the address of the page, and serves it until Ctrl-C. Only this machine reaches it, and only with the address, which \
            has a random token in it. It only looks: nothing on the page changes anything.

            What it shows comes from 'roundtable record', which it runs. It looks for the program beside itself, and then in PATH.

            Examples:
              roundtable-inspector app.db
              roundtable-inspector --recording app.recording
            """,
        version: "0.1.0"
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String?

    @Option(
        help: ArgumentHelp("Show this recording of 'roundtable record -o' instead.", valueName: "file"),
        completion: .file()
    )
    var recording: String?

    @Option(help: ArgumentHelp("The port. (default: a free one)", valueName: "n"))
    var port = 0

    @Option(help: ArgumentHelp("The program 'roundtable'.", valueName: "path"), completion: .file())
    var tool: String?

    @Option(help: ArgumentHelp("The time between two looks at the whole state.", valueName: "seconds"))
    var every = 1.0

    @Option(help: ArgumentHelp("The time between two looks at the turns.", valueName: "seconds"))
    var turnsEvery = 0.05

    func validate() throws {
        guard (path == nil) != (recording == nil) else {
            throw ValidationError("Name a database, or a recording with --recording.")
        }
        guard (0...65_535).contains(port) else { throw ValidationError("--port takes a number from 0 to 65535.") }
    }

    func run() async throws {
        // A client that closes its connection must not end the program.
        signal(SIGPIPE, SIG_IGN)
        let source: any EventSource
        let recorder: RecorderProcess?
        if let recording {
            source = try RecordedEvents(path: recording)
            recorder = nil
        } else if let path {
            let events = LiveEvents()
            recorder = RecorderProcess(
                program: try RecorderProcess.find(tool),
                arguments: ["record", "--every", "\(every)", "--turns-every", "\(turnsEvery)", "--", path],
                events: events
            )
            source = events
        } else {
            preconditionFailure("validate() has checked it")
        }
        let token = Token()
        var logger = Logger(label: "roundtable-inspector")
        logger.logLevel = .error
        let application = Application(
            responder: Site(token: token, source: source),
            // Every user of this machine can connect, the token or not. A connection that asks for nothing must not keep the page from others.
            server: .http1(configuration: .init(idleTimeout: .seconds(5))),
            configuration: ApplicationConfiguration(
                address: .hostname("127.0.0.1", port: port),
                serverName: nil,
                availableConnectionsDelegate: .maximum(128, logger: logger)
            ),
            onServerRunning: { channel in
                // Its connections inherit the size, which bounds what the system keeps for a client that does not read.
                try? await channel.setOption(.socketOption(.so_sndbuf), value: 128 << 10).get()
                let port = channel.localAddress?.port ?? 0
                Self.say("http://127.0.0.1:\(port)/\(token.text)/")
            },
            logger: logger
        )
        let signals = EndingSignals { number in
            recorder?.stop()
            Foundation.exit(128 + number)
        }
        recorder?.start()
        defer {
            recorder?.stop()
            signals.cancel()
        }
        do {
            try await application.run()
        } catch {
            throw InspectorError(
                "127.0.0.1:\(port): the page cannot be served: \(error). Choose another port with --port, or none."
            )
        }
    }

    /// Prints a line at once, also into a pipe.
    private static func say(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }
}

struct InspectorError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Handles the signals that end the program.
final class EndingSignals: Sendable {
    // nonisolated(unsafe): set once, and only cancelled later, which is safe from any thread.
    nonisolated(unsafe) private let sources: [any DispatchSourceSignal]

    init(_ handle: @escaping @Sendable (Int32) -> Void) {
        sources = [SIGINT, SIGTERM, SIGHUP].map { number in
            #if canImport(Darwin)
                // Here, a source only observes. On Linux, it replaces the action, which the recorder must not inherit as ignored.
                signal(number, SIG_IGN)
            #endif
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { handle(number) }
            source.resume()
            return source
        }
    }

    func cancel() { sources.forEach { $0.cancel() } }
}
