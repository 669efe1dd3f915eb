import Foundation
import Roundtable
import RoundtableTestSupport
import Testing

/// A machine that may be the writer of a replicated database: a folder, in which the database is.
struct Machine {
    let name: String
    let folder: URL
    private let fleet: PeerFleet
    private let url: String
    private let environment: [String: String]

    /// - parameter url: where the database is replicated; nil: in a folder of the fleet.
    init(_ name: String, _ fleet: PeerFleet, url: String? = nil, environment: [String: String] = [:]) throws {
        self.name = name
        self.fleet = fleet
        self.url = url ?? fleet.replica
        self.environment = environment
        folder = fleet.folder.appendingPathComponent("machine-\(name)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    var database: URL { folder.appendingPathComponent("app.sqlite") }

    func open(_ peer: Peer) throws { try peer.call(.open(fleet.opening(peer, at: database))) }

    private func run(_ arguments: [String]) throws -> ChildProcess {
        try fleet.spawn(
            program: try PeerFleet.program(named: "roundtable"),
            arguments: arguments,
            environment: environment
        )
    }

    func replicate() throws -> ReplicationProcess {
        ReplicationProcess(
            try run(["replicate", database.path, "--to", url, "--interval", "0.2", "--check-writer", "1", "--json"])
        )
    }

    /// - parameter name: the name of the database on this machine.
    func startPromotion(of name: String = "app.sqlite") throws -> ChildProcess {
        try run(["promote", url, folder.appendingPathComponent(name).path, "--replace", "--json"])
    }

    func follow(to database: URL) throws -> FollowProcess {
        FollowProcess(try run(["follow", url, database.path, "--interval", "0.1", "--json"]))
    }

    func promote() throws -> ProgramExit {
        let promotion = try startPromotion()
        let exit = try promotion.waitForExit(within: .seconds(60))
        #expect(exit == .status(0), "\(promotion.errorText)")
        return exit
    }

    /// What a restore gives.
    func restored(at time: String? = nil) throws -> Ledger {
        let copy = fleet.folder.appendingPathComponent("restored-\(UUID().uuidString).sqlite")
        let restore = try run(["restore", url, copy.path] + (time.map { ["--at", $0] } ?? []))
        #expect(try restore.waitForExit(within: .seconds(60)) == .status(0), "\(restore.errorText)")
        return try Ledger(of: copy)
    }

    /// The machine is the writer for a moment, by a peer of its name.
    func writeAndUploadOneRow() throws {
        let peer = try fleet.spawn(name)
        try open(peer)
        try peer.call(.write(rows: 1))
        let supervisor = try replicate()
        try supervisor.wait(for: .replicating)
        supervisor.process.signal(SIGTERM)
        #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
        try peer.call(.close)
    }

    /// The machine was lost, and its programs start again: they write until the supervisor has looked, and not after that.
    func comesBack(as name: String, instead writer: Machine) throws {
        let peer = try fleet.spawn(name)
        try open(peer)
        try peer.send(.writeLoop(WriteLoad(seconds: 60)))
        let supervisor = try replicate()
        #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(1))
        #expect(
            supervisor.process.errorText.contains("(\(writer.database.path)), since"),
            "\(supervisor.process.errorText)"
        )
        let report = try peer.stopLoop()
        #expect(report.errors.allSatisfy { $0.contains("is fenced") }, "\(report.errors)")
        // On a busy machine, the loop may have ended before it tried to write again.
        let reply = try peer.attempt(.write(rows: 1))
        #expect(reply.message?.contains("is fenced") == true, "\(reply)")
        try peer.call(.close)
        let late = try fleet.spawn("late-\(name)")
        try late.send(.open(fleet.opening(late, at: database)))
        #expect(try late.reply().message?.contains("is fenced") == true)
    }
}
