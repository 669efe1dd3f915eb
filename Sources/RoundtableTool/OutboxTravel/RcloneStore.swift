import Foundation
import RoundtableTestKit

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

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
