import Foundation
import RoundtableTestSupport

/// Libraries that victims preload (`ld.so(8)`). They are compiled when a campaign begins, because no product may carry them.
enum PreloadedLibrary {
    /// Compiles a library into a folder.
    ///
    /// - returns: the path of the library.
    static func compile(_ source: String, named name: String, in folder: URL) throws -> URL {
        let library = folder.appendingPathComponent("\(name).so")
        let file = folder.appendingPathComponent("\(name).c")
        try source.write(to: file, atomically: true, encoding: .utf8)
        let compiler = try compiler()
        let arguments = ["-O2", "-shared", "-fPIC", "-o", library.path, file.path, "-ldl"]
        let errors = folder.appendingPathComponent("compiler.log")
        let process = try ChildProcess(executable: compiler, arguments: arguments, errorOutput: errors)
        guard try process.waitForExit(within: .seconds(120)) == .status(0) else {
            throw TestKitError("\(compiler.path) does not compile \(name).c: \(process.errorText)")
        }
        return library
    }

    /// The environment in which a program preloads a library, beside those that this process preloads.
    static func environment(preloading library: URL) -> [String: String] {
        let others = ProcessInfo.processInfo.environment["LD_PRELOAD"].map { [$0] } ?? []
        return ["LD_PRELOAD": ([library.path] + others).joined(separator: " ")]
    }

    private static func compiler() throws -> URL {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        let candidates = ["cc", "clang", "gcc"].flatMap { name in folders.map { "\($0)/\(name)" } }
        guard let path = candidates.first(where: FileManager.default.isExecutableFile) else {
            throw TestKitError("there is no C compiler (cc, clang or gcc) in PATH, which \"powercut\" needs")
        }
        return URL(fileURLWithPath: path)
    }
}
