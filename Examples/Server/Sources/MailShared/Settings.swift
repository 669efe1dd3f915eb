import Foundation
import Roundtable

/// The settings of all programs. They come from the environment, because systemd, containers and shells all have one.
public struct Settings: Sendable {
    /// `MAIL_FOLDER`: the folder of the database, and of the mails that were sent. No other user may write it.
    public let folder: URL
    /// `MAIL_HOST`, `MAIL_PORT`: where the server listens. With port 0, the system chooses one.
    public let host: String
    public let port: Int
    /// `MAIL_PAUSE_MS`: the shortest time between two mails to one address; 0 for any. Servers count together.
    public let pause: Duration
    /// `MAIL_WORKER`: the name of a worker, in deliveries and in `roundtable status`.
    public let worker: String
    /// `MAIL_HANDLERS`: how many mails a worker sends at the same time.
    public let handlers: Int
    /// `MAIL_DURATION_MS`: how long it takes to send a mail.
    public let duration: Duration
    /// `MAIL_KEEP_HOURS`: how long the nightly program keeps jobs that are done.
    public let keep: TimeInterval

    public init(_ environment: [String: String] = ProcessInfo.processInfo.environment) throws {
        func number(_ name: String, default value: Int, atLeast minimum: Int = 0) throws -> Int {
            guard let text = environment[name] else { return value }
            guard let number = Int(text), number >= minimum else {
                throw SettingsError("\(name) is '\(text)': set it to a number of at least \(minimum)")
            }
            return number
        }
        guard let path = environment["MAIL_FOLDER"], !path.isEmpty else {
            throw SettingsError("MAIL_FOLDER is not set: set it to a folder that all of the programs may write")
        }
        folder = URL(fileURLWithPath: path, isDirectory: true)
        host = environment["MAIL_HOST"] ?? "127.0.0.1"
        port = try number("MAIL_PORT", default: 8080)
        pause = .milliseconds(try number("MAIL_PAUSE_MS", default: 0))
        worker = environment["MAIL_WORKER"] ?? "worker"
        handlers = try number("MAIL_HANDLERS", default: 4, atLeast: 1)
        duration = .milliseconds(try number("MAIL_DURATION_MS", default: 20))
        keep = TimeInterval(try number("MAIL_KEEP_HOURS", default: 7 * 24) * 3_600)
    }

    /// Opens the database; the first program to come creates it.
    public func openDatabase(
        as name: String,
        priority: SharedDatabase.TurnPriority = .default
    ) async throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.priority = priority
        let url = folder.appending(path: "mail.sqlite")
        return try await SharedDatabase.open(at: url, schema: Mail.schema, as: name, options: options)
    }
}

public struct SettingsError: Error, CustomStringConvertible {
    public let description: String
    init(_ description: String) { self.description = description }
}

/// Runs a program to its end. An error is printed, and the status is then 1, so that systemd restarts the service.
public func runProgram(_ body: @Sendable () async throws -> Void) async -> Never {
    do {
        try await body()
        exit(0)
    } catch {
        FileHandle.standardError.write(Data("\(error)\n".utf8))
        exit(1)
    }
}
