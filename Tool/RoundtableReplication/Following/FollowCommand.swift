import ArgumentParser
import Foundation
import Roundtable
import RoundtableKernel
import RoundtableToolSupport
import Synchronization

package struct FollowCommand: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "follow",
        abstract: "Keep a read replica of a database on another machine, by Litestream.",
        discussion: """
            On the writer's machine, 'roundtable replicate' uploads the commits. Here, Litestream fetches them until Ctrl-C or SIGTERM, and \
            each whole state comes into the database at PATH in one transaction. Any number of programs read and observe it meanwhile \
            (SharedDatabase.openReplica). None can write to it: changes go through an outbox to the writer's machine.

            When the follower ends, the database keeps its last state. The next follower continues, and begins by fetching the whole database.

            Needs the disk space of the database three times: Litestream's copy, the database, and its WAL.

            Examples:
              roundtable follow s3://bucket/app app.db
              roundtable follow nats://host:4222/bucket app.db --interval 0.2
            """
    )

    @Argument(
        help: "What is followed, as 'roundtable replicate --to' was given it; @FILE or @env:NAME, where that stands.",
        transform: { try GivenPlace($0) }
    )
    var url: GivenPlace

    @Argument(help: "The database file of the read replica. It is created.", completion: .file())
    var path: String

    @Option(parsing: .unconditional, help: ArgumentHelp("How often to look for new commits.", valueName: "seconds"))
    var interval = 1.0

    @Option(
        help: ArgumentHelp("The program Litestream, if it is not in PATH.", valueName: "program"),
        completion: .file()
    )
    var litestream: String?

    @Flag(help: "Print one JSON object with each change.")
    var json = false

    @OptionGroup var others: OthersFolderOption

    package init() {}

    package func validate() throws {
        do { _ = try ReplicaURL(url.text) } catch { throw ValidationError(error.description) }
        if !(interval >= 0.05 && interval <= 86400) {
            throw ValidationError("--interval takes a number of seconds from 0.05 to 86400.")
        }
    }

    package func run() throws {
        let replica = try ReplicaURL(url.text)
        url.warn(of: replica.secrets, as: "<url>")
        let program = try LitestreamProgram.find(litestream)
        let version = try program.requireVersion()
        let database = try FollowedDatabase(path, checkingLinks: others.checkLink)
        try others.check(database.files)
        let printer = FollowPrinter(isJSON: json)
        let supervisor = FollowSupervisor(program, version, from: replica, to: database, interval: interval) {
            printer.print($0)
        } complain: {
            Terminal.complain("Litestream: \($0)")
        }
        let signals = EndingSignals { _ in supervisor.end() }
        defer { signals.ignore() }
        Terminal.complain("following \(replica.shown) to \(database.path) with Litestream \(version)")
        try supervisor.run(database)
    }
}

/// Prints the states of a read replica: in words, when the state of affairs changes; as JSON, each change.
private final class FollowPrinter: Sendable {
    private let isJSON: Bool
    private let last = Mutex("")

    init(isJSON: Bool) { self.isJSON = isJSON }

    func print(_ status: ReplicaStatus) {
        guard isJSON else {
            let key = "\(status.state) \(status.problem ?? "")"
            let isNew = last.withLock { last in
                defer { last = key }
                return last != key
            }
            if isNew { Terminal.complain(ReplicaText.line(status, at: Date())) }
            return
        }
        // If nobody reads the output any more, the follower goes on.
        _ = try? Terminal.writeIfRead(PrintedJSON.object(status))
    }
}
