import ArgumentParser
import Foundation
import GRDB
import MeterShared
import Roundtable

@main
struct MeterTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "meter",
        abstract: "Shows what meterd has measured, and changes its settings.",
        subcommands: [Show.self, Follow.self, Every.self]
    )
}

extension MeterTool {
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Prints the last measurements.")
        @Argument var database: String
        @Option(help: "The number of measurements.") var count = 5

        func run() async throws {
            let db = try await openForReading(database)
            let readings = try await db.read { [count] db in
                try Reading.order(Column("date").desc).limit(count).fetchAll(db)
            }
            for reading in readings.reversed() { print(reading.line) }
        }
    }

    struct Follow: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Prints each measurement as soon as it is there.")
        @Argument var database: String
        @Option(help: "Ends after so many.") var count = Int.max

        func run() async throws {
            let db = try await openForReading(database)
            var last = Date.distantPast
            var left = count
            let latest = ValueObservation.tracking { try Reading.order(Column("date").desc).limit(10).fetchAll($0) }
            for try await readings in latest.values(in: db) {
                for reading in readings.reversed() where reading.date > last && left > 0 {
                    print(reading.line)
                    last = reading.date
                    left -= 1
                }
                if left == 0 { break }
            }
        }
    }

    struct Every: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Sets the interval. The running daemon follows.")
        @Argument var database: String
        @Argument(help: "Milliseconds, at least 10.") var interval: Int

        func validate() throws {
            if interval < 10 { throw ValidationError("the interval must be at least 10 ms") }
        }

        func run() async throws {
            try SharedDatabase.suspendAllOnTerminalStop()
            var options = SharedDatabase.Options()
            options.priority = .interactive
            let url = URL(fileURLWithPath: database)
            let db = try await SharedDatabase.open(at: url, schema: Meter.schema, as: "meter", options: options)
            try await db.write { [interval] db in
                var settings = try Settings.current(db)
                settings.interval = interval
                try settings.update(db)
            }
            try db.close()
        }
    }
}

/// A process that only reads gets an answer while there is nothing to read, and no error.
private func openForReading(_ path: String) async throws -> SharedDatabase {
    let url = URL(fileURLWithPath: path)
    switch try await SharedDatabase.openReadOnly(at: url, schema: Meter.schema, as: "meter") {
    case .available(let db): return db
    case .unavailable(.notCreated): throw CleanExit.message("Nothing was measured yet: start meterd.")
    case .unavailable(.schemaTooOld): throw CleanExit.message("meterd is older than this tool: restart it.")
    case .unavailable(.schemaTooNew): throw CleanExit.message("meterd is newer than this tool: update the tool.")
    }
}

extension Reading {
    fileprivate var line: String { "\(date.formatted(.iso8601))  load \(String(format: "%.2f", load))" }
}
