import Foundation
import RoundtableTestKit

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The installed program `rclone`, which does all that concerns a store. Nothing of it is linked.
struct RcloneProgram: Equatable, Sendable {
    /// The path of the program, with a `/`.
    let path: String

    /// From 1.55 on, connection strings are understood, and configuration by the environment goes with them.
    static let oldestVersion = ProgramVersion(1, 55, 0)
    private static let installation =
        "Install it with 'apt-get install rclone', 'brew install rclone', or from https://rclone.org"

    /// - parameter path: the path that the user gave; nil: the program is searched in `PATH`.
    /// - throws: `ToolError` when there is no such program.
    static func find(
        _ path: String?,
        in environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ToolError) -> RcloneProgram {
        RcloneProgram(
            path: try InstalledProgram.path(of: "rclone", path, in: environment, installation: installation)
        )
    }

    /// Asks the program for its version.
    ///
    /// - throws: `ToolError` when the version is older than ``oldestVersion``, or the program says none.
    @discardableResult
    func requireVersion() throws -> ProgramVersion {
        let run = try ProgramRun(launch(["version"]))
        guard let output = try run.wait(upTo: 60_000) else {
            throw ToolError("\(path): does not say its version. End it, and try again.")
        }
        return try InstalledProgram.version(
            said: output,
            path: path,
            name: "rclone",
            oldest: Self.oldestVersion,
            because: "1.55 or later is needed",
            installation: Self.installation
        )
    }

    /// How the program is started: it ends with this process, and writes its errors to standard error.
    func launch(_ arguments: [String], environment: [String: String] = [:]) -> ProgramLaunch {
        var launch = ProgramLaunch.bound(path, arguments)
        for name in ["LOG_FILE", "VERBOSE", "QUIET", "USE_JSON_LOG", "DRY_RUN", "INTERACTIVE", "PROGRESS"] {
            launch.environment["RCLONE_\(name)"] = nil
        }
        launch.environment.merge(environment) { $1 }
        return launch
    }
}

/// A store that `rclone` reaches.
final class RcloneStore: OutboxStore {
    /// A call of `rclone` has been given up, because the process is to end.
    struct Ended: Error {}

    private let program: RcloneProgram
    private let url: StoreURL
    /// The folder for the lists of names that `rclone` reads.
    private let folder: String
    private let ending: any TravelEnding
    private var number = 0

    private static let options = [
        "--ask-password=false", "--retries", "1", "--low-level-retries", "3", "--contimeout", "10s", "--timeout", "60s",
        "--transfers", "16", "--checkers", "16", "--stats", "0", "--log-level", "ERROR",
    ]
    /// The exit code for a folder that is not there.
    private static let notFound: Int32 = 3
    /// How long a call may go on after the request to end, and how long `rclone` may take to end after SIGTERM.
    private static let grace = Duration.seconds(10)
    private static let graceAfterSignal = Duration.seconds(3)

    init(_ program: RcloneProgram, _ url: StoreURL, folder: String, ending: any TravelEnding) {
        self.program = program
        self.url = url
        self.folder = folder
        self.ending = ending
    }

    func list(_ patterns: [String]) throws -> [StoreObject] {
        let filters = patterns.flatMap { ["--filter", "+ \($0)"] } + ["--filter", "- *"]
        let arguments = ["lsf", "--recursive", "--files-only", "--format", "sp", "--separator", " "]
        let output = try run(arguments + filters + [url.place], allowing: [Self.notFound])
        return output.standardOutput.split(separator: "\n").compactMap { line in
            let parts = line.split(separator: " ", maxSplits: 1)
            guard parts.count == 2, let size = Int(parts[0]) else { return nil }
            return StoreObject(path: String(parts[1]), size: size)
        }
    }

    func upload(_ names: [String], from folder: String, to prefix: String) throws {
        try transfer(["copy", "--no-check-dest"], names, [folder, url.place(of: prefix)])
    }

    func upload(fileAt path: String, as object: String) throws {
        try run(["copyto", "--no-check-dest", path, url.place(of: object)])
    }

    func download(_ objects: [String], into folder: String) throws {
        // Another process may have removed the last object of a folder, and the folder with it.
        try transfer(["copy", "--no-check-dest"], objects, [url.place, folder], allowing: [Self.notFound])
    }

    func delete(_ objects: [String]) throws {
        try transfer(["delete"], objects, [url.place], allowing: [Self.notFound])
    }

    private func transfer(
        _ command: [String],
        _ names: [String],
        _ places: [String],
        allowing codes: [Int32] = []
    ) throws {
        number += 1
        let file = "\(folder)/names-\(number)"
        try Data((names.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        try run(command + ["--files-from-raw", file, "--no-traverse"] + places, allowing: codes)
    }

    /// - throws: ``TravelProblem`` when `rclone` fails, ``Ended``.
    @discardableResult
    private func run(_ arguments: [String], allowing codes: [Int32] = []) throws -> ProgramOutput {
        if ending.request != .none { throw Ended() }
        let run = try ProgramRun(program.launch(Self.options + arguments, environment: url.environment))
        var deadline: ContinuousClock.Instant?
        var isTold = false
        while true {
            if let output = try run.wait(upTo: 100) {
                if output.exit == .status(0) { return output }
                if case .status(let code) = output.exit, codes.contains(code) { return output }
                if isTold { throw Ended() }
                throw RcloneFailure.problem(output, of: url)
            }
            switch ending.request {
            case .none: continue
            case .end: deadline = deadline ?? .now + Self.grace
            case .kill: if !isTold { deadline = .now }
            }
            guard let end = deadline, .now >= end else { continue }
            run.signal(isTold ? SIGKILL : SIGTERM)
            // A stopped program handles no signal.
            run.signal(SIGCONT)
            isTold = true
            deadline = .now + Self.graceAfterSignal
        }
    }
}

/// Whether the process is to end.
protocol TravelEnding: Sendable {
    var request: TravelRequest { get }
}

enum TravelRequest: Int { case none, end, kill }

/// What `rclone` says when it fails, as a problem with advice.
enum RcloneFailure {
    static func problem(_ output: ProgramOutput, of url: StoreURL) -> TravelProblem {
        let lines = output.standardError.split(whereSeparator: \.isNewline).map(Self.message)
        let text = lines.joined(separator: " ")
        let line = lines.last { $0.hasPrefix("Failed to") } ?? lines.last ?? "rclone ended with \(output.exit.sentence)"
        return problem(line, text, of: url)
    }

    /// A line of the log without its time and level.
    private static func message(_ line: Substring) -> String {
        String(line.trimmingPrefix(/[0-9\/]+ [0-9:]+ (?:[A-Z]+ +: +)?/))
    }

    /// - Parameters:
    ///   - line: the line to show.
    ///   - text: everything that rclone has written.
    static func problem(_ line: String, _ text: String, of url: StoreURL) -> TravelProblem {
        let known = known.first { known in known.signs.contains { text.localizedCaseInsensitiveContains($0) } }
        let cause = url.redacting(line)
        let shown = cause.count <= 240 ? cause : cause.prefix(239) + "…"
        return TravelProblem(
            what: known.map { "\($0.what) (rclone: \(shown))" } ?? "rclone: \(shown)",
            advice: known?.advice ?? "It is tried again. If it does not recover, try 'rclone lsf' with that place"
        )
    }

    private struct Known {
        let signs: [String]
        let what: String
        let advice: String
    }

    /// The first entry that matches counts, so causes come before their consequences.
    private static let known = [
        Known(
            signs: ["no space left on device", "disk quota exceeded", "quotaExceeded", "XMinioStorageFull"],
            what: "the disk or the store is full",
            advice: "Make room. It is tried again"
        ),
        Known(
            signs: [
                "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "InvalidToken", "ExpiredToken",
                "NoCredentialProviders", "unable to authenticate", "status code: 401", "status code: 403",
                "401 Unauthorized",
                "403 Forbidden", "couldn't find credentials", "invalid_grant",
            ],
            what: "the store refuses the credentials",
            advice: "Correct them in rclone's configuration or in the environment, and start this again"
        ),
        Known(
            signs: ["didn't find section in config file", "didn't find backend called"],
            what: "rclone does not know the store",
            advice: "Define it with 'rclone config', or correct the URL, and start this again"
        ),
        Known(
            signs: ["unable to load custom CA bundle", "x509:", "certificate"],
            what: "the certificates are not usable",
            advice: "Check AWS_CA_BUNDLE and the store's certificate"
        ),
        Known(
            signs: ["NoSuchBucket", "bucket does not exist"],
            what: "the store's bucket does not exist",
            advice: "Create it, or correct the URL"
        ),
        Known(
            signs: [
                "connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host",
                "connection reset", "context deadline exceeded",
            ],
            what: "the store cannot be reached",
            advice: "Check the address and the network. It is tried again"
        ),
        Known(
            signs: ["permission denied", "read-only file system", "not a directory"],
            what: "a file cannot be written or read",
            advice: "Give the user that runs this access to the store and to the outbox"
        ),
    ]
}
