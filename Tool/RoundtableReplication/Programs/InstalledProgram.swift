import Foundation
import RoundtableProcesses
import RoundtableToolSupport

/// Finds installed programs that this tool runs, and checks their versions.
enum InstalledProgram {
    /// The path of a program, with a `/`.
    ///
    /// - Parameters:
    ///   - name: the name of the program, and of the option that gives its path.
    ///   - path: the path that the user gave; nil: the program is searched in `PATH`.
    ///   - installation: how to install it, as the beginning of a sentence.
    /// - throws: `ToolError` when there is no such program.
    static func path(
        of name: String,
        _ path: String?,
        in environment: [String: String],
        installation: String
    ) throws(ToolError) -> String {
        if let path {
            let path = path.contains("/") ? path : "./\(path)"
            guard isProgram(path) else {
                throw ToolError("\(path): is not a program. Give --\(name) the path of '\(name)', or leave it out.")
            }
            return path
        }
        for folder in (environment["PATH"] ?? "").split(separator: ":", omittingEmptySubsequences: false) {
            let path = "\(folder.isEmpty ? "." : folder)/\(name)"
            if isProgram(path) { return path }
        }
        throw ToolError("the program '\(name)' is not in PATH. \(installation), or give its path with --\(name).")
    }

    private static func isProgram(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && !isFolder.boolValue
            && FileManager.default.isExecutableFile(atPath: path)
    }

    /// The version that a program has said.
    ///
    /// - Parameters:
    ///   - output: what the program has written when it was asked for its version.
    ///   - name: the name of the program as its makers write it.
    ///   - reason: what is needed, as a part of a sentence.
    /// - throws: `ToolError` when the version is older than `oldest`, or the program says none.
    static func version(
        said output: ProgramOutput,
        path: String,
        name: String,
        oldest: ProgramVersion,
        because reason: String,
        installation: String
    ) throws(ToolError) -> ProgramVersion {
        let text = (output.standardOutput + output.standardError).trimmingCharacters(in: .whitespacesAndNewlines)
        guard output.exit == .status(0), let version = ProgramVersion(text) else {
            let found = text.split(whereSeparator: \.isNewline).first.map { "'\($0.prefix(80))'" } ?? "nothing"
            throw ToolError(
                "\(path): does not say a version of \(name), but \(found) (\(output.exit.sentence)). \(installation)."
            )
        }
        guard version >= oldest else {
            throw ToolError("\(path): is \(name) \(version), and \(reason). \(installation).")
        }
        return version
    }
}

/// A version such as 0.5.17.
struct ProgramVersion: Comparable, CustomStringConvertible, Sendable {
    let parts: [Int]

    init(_ major: Int, _ minor: Int, _ patch: Int) { parts = [major, minor, patch] }

    /// - parameter text: what the program prints: `0.5.17`, `v0.5.0-beta1`, `rclone v1.60.1-DEV`.
    init?(_ text: String) {
        guard let match = text.firstMatch(of: /^(?:rclone )?v?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?/) else {
            return nil
        }
        parts = [match.1, match.2, match.3 ?? "0"].compactMap { Int($0) }
    }

    static func < (left: Self, right: Self) -> Bool { left.parts.lexicographicallyPrecedes(right.parts) }
    var description: String { parts.map(String.init).joined(separator: ".") }
}
