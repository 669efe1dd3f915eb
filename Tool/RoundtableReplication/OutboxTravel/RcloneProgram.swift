import Foundation
import RoundtableProcesses
import RoundtableToolSupport

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
            throw ToolError("\(path): did not answer 'rclone version' within 60 s. Run that by hand, and try again.")
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
