import Foundation
import RoundtableKernel

/// Real processes on one database in a temporary folder.
///
/// When `run` returns or throws, all processes are killed and reaped, whatever a test did to them, and the folder is removed. Only
/// one thread at a time may use a fleet.
package final class PeerFleet {
    package let folder: URL
    package private(set) var peers: [Peer] = []
    private let temporary: TemporaryFolder
    private let executable: URL
    private var others: [ChildProcess] = []

    private init(executable: URL?, ofOneUser: Bool, inMemory: Bool) throws {
        self.executable = try executable ?? Self.peerExecutable()
        temporary = try TemporaryFolder(inMemory: inMemory)
        folder = temporary.url
        for folder in [notes, databaseFolder] {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }
        if ofOneUser { return }
        // Peers that run as another user write into these folders, too.
        for folder in [folder, notes, databaseFolder] {
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.path)
        }
    }

    /// - Parameters:
    ///   - executable: `roundtable-peer`, or a program with the same protocol; by default, the peer beside the tests.
    ///   - ofOneUser: whether no process runs as another user. Then the folders are those of this user alone, as commands of the tool
    ///     require that run other programs for the superuser.
    ///   - inMemory: see `TemporaryFolder`.
    package static func run<T>(
        executable: URL? = nil,
        ofOneUser: Bool = false,
        inMemory: Bool = false,
        _ body: (PeerFleet) throws -> T
    ) throws -> T {
        let fleet = try PeerFleet(executable: executable, ofOneUser: ofOneUser, inMemory: inMemory)
        defer { fleet.end() }
        return try body(fleet)
    }

    private func end() {
        for peer in peers { peer.process.end() }
        for process in others { process.end() }
        temporary.remove()
    }

    // MARK: Places

    /// The folder that contains only the database and its companion files.
    package var databaseFolder: URL { folder.appendingPathComponent("database", isDirectory: true) }
    package var database: URL { database(named: "shared.sqlite") }
    package var controlBlock: URL { URL(fileURLWithPath: ControlBlock.path(forDatabaseAt: database.path)) }

    package func database(named name: String) -> URL { databaseFolder.appendingPathComponent(name) }

    /// The folder for the standard error and the progress file of each process.
    private var notes: URL { folder.appendingPathComponent("notes", isDirectory: true) }

    /// The path of `roundtable-peer`: the environment variable `ROUNDTABLE_PEER`, else the program beside the running test program.
    private static func peerExecutable() throws -> URL {
        if let path = ProcessInfo.processInfo.environment["ROUNDTABLE_PEER"] { return URL(fileURLWithPath: path) }
        return try program(named: "roundtable-peer")
    }

    /// The path of a product of this package, beside the running test program.
    package static func program(named name: String) throws -> URL {
        #if canImport(Darwin)
            let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") } ?? .main
            let folder = bundle.bundleURL.deletingLastPathComponent()
        #else
            let test = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let folder = URL(fileURLWithPath: test).deletingLastPathComponent()
        #endif
        let program = folder.appendingPathComponent(name)
        guard FileManager.default.isExecutableFile(atPath: program.path) else {
            throw TestKitError(
                "\(program.path) is not there: build the product \(name), or set ROUNDTABLE_PEER for the peer"
            )
        }
        return program
    }

    // MARK: Processes

    /// Starts a peer. Its name is also its author name, and must be unique in the fleet; by default, a new name is chosen.
    ///
    /// - parameter user: the numeric id of the user to run as; only the superuser may use it.
    /// - parameter environment: the variables that are added to the caller's environment.
    /// - parameter blockedSignals: the signals that are blocked when the peer starts.
    package func spawn(
        _ name: String? = nil,
        user: UInt32? = nil,
        environment: [String: String] = [:],
        blockedSignals: Set<Int32> = []
    ) throws -> Peer {
        try spawn(name, user: user, environment: environment, blockedSignals: blockedSignals, wrapping: nil)
    }

    #if os(Linux)
        /// Starts a peer in its own namespaces.
        package func spawn(_ name: String, in namespaces: Namespaces, user: UInt32? = nil) throws -> Peer {
            try spawn(name, user: user) { (Namespaces.unshare, namespaces.command($0)) }
        }
    #endif

    /// - parameter wrapping: returns the program that runs the given command, and the arguments of that program.
    private func spawn(
        _ name: String?,
        user: UInt32? = nil,
        environment: [String: String] = [:],
        blockedSignals: Set<Int32> = [],
        wrapping: (([String]) -> (String, [String]))?
    ) throws -> Peer {
        let name = name ?? "peer-\(peers.count + 1)"
        precondition(!peers.contains { $0.name == name }, "a second peer named '\(name)'")
        var program = executable
        var arguments: [String] = []
        if let user {
            // The peer runs from a copy, because the user may not have access to the build folder.
            program = URL(fileURLWithPath: "/usr/bin/setpriv")
            arguments = ["--reuid=\(user)", "--regid=\(user)", "--clear-groups", try reachableExecutable().path]
        }
        if let wrapping {
            let (path, wrapped) = wrapping([program.path] + arguments)
            (program, arguments) = (URL(fileURLWithPath: path), wrapped)
        }
        let process = try ChildProcess(
            executable: program,
            arguments: arguments,
            // Without this, a crashed peer ends only after a minute of symbolication.
            environment: environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 },
            blockedSignals: blockedSignals,
            errorOutput: notes.appendingPathComponent("\(name).stderr")
        )
        let peer = Peer(
            name: name,
            process: process,
            progressPath: notes.appendingPathComponent("\(name).progress").path
        )
        peers.append(peer)
        return peer
    }

    package func spawn(_ count: Int) throws -> [Peer] {
        try (0..<count).map { _ in try spawn() }
    }

    /// Starts any other program, such as the `sqlite3` shell.
    package func spawn(
        program: URL,
        arguments: [String],
        environment: [String: String] = [:],
        blockedSignals: Set<Int32> = []
    ) throws -> ChildProcess {
        let process = try ChildProcess(
            executable: program,
            arguments: arguments,
            // What a program that is killed leaves in its temporary folder is removed with the fleet.
            environment: ["TMPDIR": notes.path].merging(environment) { $1 },
            blockedSignals: blockedSignals,
            errorOutput: notes.appendingPathComponent("program-\(others.count + 1).stderr")
        )
        others.append(process)
        return process
    }

    private func reachableExecutable() throws -> URL {
        let copy = notes.appendingPathComponent(executable.lastPathComponent)
        if !FileManager.default.fileExists(atPath: copy.path) {
            // In a process of its own: a child that another thread forks meanwhile would keep the copy open for writing for a moment, and a file that
            // is open for writing cannot be executed (ETXTBSY).
            let copying = try ChildProcess(
                executable: URL(fileURLWithPath: "/bin/cp"),
                arguments: [executable.path, copy.path],
                errorOutput: notes.appendingPathComponent("cp.stderr")
            )
            let exit = try copying.waitForExit()
            guard exit == .status(0) else { throw TestKitError("cp: \(exit) \(copying.errorText)") }
        }
        return copy
    }

    // MARK: Openings

    /// How `peer` opens the fleet's database, or the one at `url`.
    package func opening(
        _ peer: Peer,
        at url: URL? = nil,
        schema: PeerSchema = PeerSchema(),
        options: PeerOptions = PeerOptions()
    ) -> PeerOpening {
        PeerOpening(
            path: (url ?? database).path,
            author: peer.name,
            schema: schema,
            options: options,
            progress: peer.progressPath
        )
    }

    /// Starts `count` peers, and opens the fleet's database in each of them.
    package func spawnOpen(_ count: Int, options: PeerOptions = PeerOptions()) throws -> [Peer] {
        let started = try spawn(count)
        for peer in started { try peer.send(.open(opening(peer, options: options))) }
        for peer in started {
            let reply = try peer.reply()
            guard reply.outcome == .done else { throw TestKitError("\(peer): \(reply.message ?? "")") }
        }
        return started
    }

    package func spawnOpen(
        _ name: String,
        options: PeerOptions = PeerOptions(),
        blockedSignals: Set<Int32> = []
    ) throws -> Peer {
        let peer = try spawn(name, blockedSignals: blockedSignals)
        try peer.call(.open(opening(peer, options: options)))
        return peer
    }
}
