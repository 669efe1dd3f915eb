import Foundation
import Testing

/// Runs the built executable, which lies beside the test bundle.
struct Tool {
    struct Result {
        let code: Int32
        let output: String
        let errors: String

        var json: [String: Any]? {
            (try? JSONSerialization.jsonObject(with: Data(output.utf8))) as? [String: Any]
        }
    }

    static var url: URL {
        get throws {
            // Linux: Bundle.main is the folder of the test runner; Darwin: the bundle of the tests is loaded into it.
            let bundles = [Bundle.main] + Bundle.allBundles
            let folders = bundles.flatMap { [$0.bundleURL, $0.bundleURL.deletingLastPathComponent()] }
            let candidates = folders.map { $0.appendingPathComponent("roundtable") }
            return try #require(
                candidates.first { FileManager.default.isExecutableFile(atPath: $0.path) },
                "the executable 'roundtable' is not beside the test bundle: build it first"
            )
        }
    }

    /// GNU's env(1), which starts a program with signals ignored.
    static let env = URL(fileURLWithPath: "/usr/bin/env")
    static let hasEnv = FileManager.default.isExecutableFile(atPath: env.path)

    /// Starts the program with these arguments in `folder`, which it also takes for temporary files.
    static func start(
        _ arguments: [String],
        in folder: URL,
        program: URL? = nil,
        input: Pipe? = nil,
        output: Pipe,
        errors: Pipe
    ) throws -> Process {
        let process = Process()
        process.executableURL = try program ?? url
        process.arguments = arguments
        process.currentDirectoryURL = folder
        process.environment = ProcessInfo.processInfo.environment.merging(["TMPDIR": folder.path]) { $1 }
        // The shell refuses to run with another library than its own (`make test-sqlcipher`).
        if program == Shell.program { process.environment?["LD_LIBRARY_PATH"] = nil }
        process.standardInput = input ?? FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        return process
    }

    /// What the threads of a process wait for, on Linux; empty when the process has ended.
    static func threads(of pid: Int32) -> [String] {
        let folder = "/proc/\(pid)/task"
        return ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).map { thread in
            let texts = ["comm", "wchan", "stat"].map {
                (try? String(contentsOfFile: "\(folder)/\(thread)/\($0)", encoding: .utf8)) ?? ""
            }
            return "\(thread): \(texts.joined(separator: " "))"
        }
    }

    @discardableResult
    static func run(_ arguments: String..., in folder: Folder) throws -> Result {
        try run(arguments, in: folder)
    }

    static func run(_ arguments: [String], in folder: Folder, program: URL? = nil) throws -> Result {
        let (output, errors) = (Pipe(), Pipe())
        let process = try start(arguments, in: folder.url, program: program, output: output, errors: errors)
        // Errors are few lines, and fit into the pipe while the output is read.
        let text = output.fileHandleForReading.readDataToEndOfFile()
        let errorText = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Result(
            code: process.terminationStatus,
            output: String(decoding: text, as: UTF8.self),
            errors: String(decoding: errorText, as: UTF8.self)
        )
    }
}

/// A temporary folder that is removed with its last reference.
final class Folder: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("roundtable-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    func path(_ name: String) -> String { url.appendingPathComponent(name).path }

    /// What is there, with the contents: to see that nothing was created or changed.
    var contents: [String: Data] {
        get throws {
            try FileManager.default.contentsOfDirectory(atPath: url.path).reduce(into: [:]) { contents, name in
                contents[name] = FileManager.default.contents(atPath: path(name)) ?? Data()
            }
        }
    }
}
