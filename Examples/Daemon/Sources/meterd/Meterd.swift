import Dispatch
import Foundation
import GRDB
import MeterShared
import Roundtable

// meterd DATABASE   measures until SIGTERM or SIGINT

@main
struct Meterd {
    static func main() async throws {
        guard CommandLine.arguments.count == 2 else {
            print("usage: meterd DATABASE")
            exit(64)
        }
        // Ctrl-Z releases the lock before the process stops.
        try SharedDatabase.suspendAllOnTerminalStop()
        var options = SharedDatabase.Options()
        // A person at the tool goes before a measurement.
        options.priority = .background
        let url = URL(fileURLWithPath: CommandLine.arguments[1])
        let db = try await SharedDatabase.open(at: url, schema: Meter.schema, as: "meterd", options: options)

        let measuring = Task { try await measure(db) }
        let signals = ending { measuring.cancel() }
        defer { withExtendedLifetime(signals) {} }
        print("meterd measures. End it with Ctrl-C.")
        try await measuring.value
        // The last process that closes the database empties its WAL.
        try db.close()
        print("meterd has ended.")
    }

    /// Measures in the interval of the settings, and follows their changes by the tool.
    private static func measure(_ db: SharedDatabase) async throws {
        var writing: Task<Void, Never>?
        let settings = ValueObservation.tracking(Settings.current).removeDuplicates()
        do {
            for try await settings in settings.values(in: db) {
                writing?.cancel()
                print("every \(settings.interval) ms")
                writing = Task { await write(db, every: .milliseconds(settings.interval)) }
            }
        } catch is CancellationError {}
        writing?.cancel()
        await writing?.value
    }

    /// Writes measurements until the task is cancelled.
    private static func write(_ db: SharedDatabase, every interval: Duration) async {
        while true {
            do {
                try await Task.sleep(for: interval)
                let reading = Reading(date: Date(), load: currentLoad())
                try await db.write { try reading.insert($0) }
            } catch is CancellationError {
                return
            } catch {
                // Another process is in the way, for example, and the message names it. This measurement is left out.
                print("not written: \(error)")
            }
        }
    }

    private static func currentLoad() -> Double {
        var loads = [0.0]
        return getloadavg(&loads, 1) == 1 ? loads[0] : 0
    }

    /// Calls `handler` on SIGTERM and SIGINT for as long as the result is alive.
    private static func ending(_ handler: @escaping @Sendable () -> Void) -> [any DispatchSourceSignal] {
        [SIGTERM, SIGINT].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler(handler: handler)
            source.resume()
            return source
        }
    }
}
