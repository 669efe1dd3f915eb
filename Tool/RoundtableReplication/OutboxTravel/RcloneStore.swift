import Foundation
import RoundtableFiles
import RoundtableKernel
import RoundtableProcesses

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
    /// The outbox, which has room for what `rclone` reads.
    private let folder: OutboxFolder
    private let ending: any TravelEnding

    private static let options = [
        "--ask-password=false", "--retries", "1", "--low-level-retries", "3", "--contimeout", "10s", "--timeout", "60s",
        "--transfers", "16", "--checkers", "16", "--stats", "0", "--log-level", "ERROR",
    ]
    /// The exit code for a folder that is not there.
    private static let notFound: Int32 = 3
    /// How long a call may go on after the request to end, and how long `rclone` may take to end after SIGTERM.
    private static let grace = Duration.seconds(10)
    private static let graceAfterSignal = Duration.seconds(3)

    init(_ program: RcloneProgram, _ url: StoreURL, folder: OutboxFolder, ending: any TravelEnding) {
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

    func upload(_ names: [String], from folder: OpenFolder, to prefix: String) throws {
        try withNames(names) { list, arguments in
            let places = [ProgramRun.path(of: folder, at: 1), url.place(of: prefix)]
            try run(["copy", "--no-check-dest"] + arguments + places, folders: [list, folder])
        }
    }

    func upload(_ bytes: [UInt8], as object: String) throws {
        try folder.withArrivals { staging in
            try staging.folder.makeFile("object", bytes, access: nil, isDurable: false)
            let path = "\(ProgramRun.path(of: staging.folder))/object"
            try run(["copyto", "--no-check-dest", path, url.place(of: object)], folders: [staging.folder])
        }
    }

    func download(_ objects: [String], into arrivals: StagingFolder) throws {
        try withNames(objects) { list, arguments in
            let places = [url.place, ProgramRun.path(of: arrivals.folder, at: 1)]
            // Another process may have removed the last object of a folder, and the folder with it.
            try run(
                ["copy", "--no-check-dest"] + arguments + places,
                folders: [list, arrivals.folder],
                allowing: [Self.notFound]
            )
        }
    }

    func delete(_ objects: [String]) throws {
        try withNames(objects) { list, arguments in
            try run(["delete"] + arguments + [url.place], folders: [list], allowing: [Self.notFound])
        }
    }

    /// - parameter body: gets the folder with a list of names, which is the first folder of a run, and the arguments that name the list.
    private func withNames(_ names: [String], _ body: (OpenFolder, [String]) throws -> Void) throws {
        try folder.withArrivals { staging in
            let text = names.joined(separator: "\n") + "\n"
            try staging.folder.makeFile("names", Array(text.utf8), access: nil, isDurable: false)
            let list = "\(ProgramRun.path(of: staging.folder))/names"
            try body(staging.folder, ["--files-from-raw", list, "--no-traverse"])
        }
    }

    /// - throws: ``TravelProblem`` when `rclone` fails, ``Ended``.
    @discardableResult
    private func run(
        _ arguments: [String],
        folders: [OpenFolder] = [],
        allowing codes: [Int32] = []
    ) throws -> ProgramOutput {
        if ending.request != .none { throw Ended() }
        let run = try ProgramRun(
            program.launch(Self.options + arguments, environment: url.environment),
            folders: folders
        )
        var deadline: ContinuousClock.Instant?
        var isSignaled = false
        while true {
            if let output = try run.wait(upTo: 100) {
                if output.exit == .status(0) { return output }
                if case .status(let code) = output.exit, codes.contains(code) { return output }
                if isSignaled { throw Ended() }
                throw RcloneFailure.problem(output, of: url)
            }
            switch ending.request {
            case .none: continue
            case .end: deadline = deadline ?? .now + Self.grace
            case .kill: if !isSignaled { deadline = .now }
            }
            guard let end = deadline, .now >= end else { continue }
            run.signal(isSignaled ? SIGKILL : SIGTERM)
            // A stopped program handles no signal.
            run.signal(SIGCONT)
            isSignaled = true
            deadline = .now + Self.graceAfterSignal
        }
    }
}
