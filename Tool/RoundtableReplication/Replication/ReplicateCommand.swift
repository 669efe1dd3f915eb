import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableKernel
import RoundtableToolSupport

package struct ReplicateCommand: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "replicate",
        abstract: "Replicate a database by Litestream, and watch over it.",
        discussion: """
            Runs an installed Litestream (https://litestream.io), version 0.5 or later, until Ctrl-C or SIGTERM, and starts it again when it \
            ends. Meanwhile, the programs that share the database leave checkpoints to it, without configuration. 'roundtable status' and \
            'roundtable doctor' show its state.

            Credentials come from the environment, as Litestream's documentation says: for S3, LITESTREAM_ACCESS_KEY_ID and \
            LITESTREAM_SECRET_ACCESS_KEY. The URL may have parameters, such as s3://bucket/path?endpoint=http://host:port. If it has credentials, \
            keep it out of the list of processes: --to @FILE reads it from a file, --to @env:NAME from a variable.

            'roundtable restore' brings a database back. If this machine is lost, 'roundtable promote' makes another one the writer; this one \
            is then fenced when it comes back, so start this before the programs that write.
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Option(
        help: ArgumentHelp(
            "Where the replica is: s3://, nats://, sftp://, file:/// …; @FILE or @env:NAME, where that stands.",
            valueName: "url"
        ),
        transform: { try GivenPlace($0) }
    )
    var to: GivenPlace

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "How often to upload commits. What is younger is lost with the machine.",
            valueName: "seconds"
        )
    )
    var interval = 1.0

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("How often to look whether another machine was promoted.", valueName: "seconds")
    )
    var checkWriter = 10.0

    @Option(
        help: ArgumentHelp("The program Litestream, if it is not in PATH.", valueName: "program"),
        completion: .file()
    )
    var litestream: String?

    @Flag(help: "Print one JSON object whenever the state changes.")
    var json = false

    @OptionGroup var others: OthersFolderOption

    package init() {}

    package func validate() throws {
        do { _ = try ReplicaURL(to.text) } catch { throw ValidationError("--to: \(error.description)") }
        if !(interval >= 0.05 && interval <= 86400) {
            throw ValidationError("--interval takes a number of seconds from 0.05 to 86400.")
        }
        if !(checkWriter >= 0.1 && checkWriter <= 86400) {
            throw ValidationError("--check-writer takes a number of seconds from 0.1 to 86400.")
        }
    }

    package func run() throws {
        let replica = try ReplicaURL(to.text)
        to.warn(of: replica.secrets, as: "--to")
        let program = try LitestreamProgram.find(litestream)
        let version = try program.requireVersion()
        let url = try others.checkedDatabase(path)
        try check(url)
        var options = SharedDatabase.Options()
        options.waitWhileStopped()
        options.checkpointing = .external
        // For writing, because only such a participant creates the control block, where the lease is (rule K13).
        let database = try SharedDatabase.open(
            at: url,
            schema: .unmanaged,
            as: ReplicationStatus.author,
            options: options
        )
        defer { try? database.close() }
        let printer = ReplicationPrinter(isJSON: json, path: database.path)
        let supervisor = try ReplicationSupervisor(
            database,
            program,
            version,
            to: replica,
            interval: interval,
            termInterval: checkWriter
        ) {
            printer.print($0)
        } complain: {
            Terminal.complain($0)
        }
        let signals = EndingSignals { _ in
            Terminal.complain("ending: Litestream uploads the rest, for 35 s at most. A second signal ends it at once.")
            supervisor.end()
        }
        defer { signals.ignore() }
        Terminal.complain("replicating \(database.path) to \(replica.shown) with Litestream \(version)")
        guard try supervisor.run() else {
            throw ToolError(
                "Litestream did not end cleanly: the last commits may not be in the replica. Start it again to upload them."
            )
        }
    }

    /// Refuses what Litestream cannot replicate, and what is replicated already (rule Y3).
    private func check(_ url: URL) throws {
        let status = try DatabaseStatus(ofDatabaseAt: url)
        if let fence = status.fence { throw TermKeeper.refusal(fence, databasePath: status.path) }
        if status.isEncrypted {
            throw ToolError("\(status.path): is encrypted, and Litestream cannot open it.")
        }
        guard status.journalMode == .wal else {
            throw ToolError(
                "\(status.path): is in rollback-journal mode. Litestream replicates databases in WAL mode: share it first, or run PRAGMA journal_mode = WAL."
            )
        }
        guard let replication = status.replication else { return }
        switch replication.state {
        case .unsupervised:
            throw ToolError(
                "\(status.path): Litestream (pid \(replication.litestream ?? 0)) replicates it already, run by another program. End that first."
            )
        case .starting, .replicating, .failing, .unresponsive, .ended:
            throw ToolError(
                "\(status.path): 'roundtable replicate' (pid \(replication.supervisor ?? 0)) replicates it already\(replication.url.map { ", to \($0.claim)" } ?? ""). End that first."
            )
        case .abandoned:
            // On Linux, Litestream ends with its supervisor, after it has uploaded what it has.
            if let pid = replication.litestream {
                throw ToolError(
                    "\(status.path): Litestream (pid \(pid)) still runs, without its supervisor. Wait until it has ended, or end it (kill \(pid))."
                )
            }
        }
    }
}

/// Prints the states of a replication.
private struct ReplicationPrinter: Sendable {
    let isJSON: Bool
    let path: String

    func print(_ status: ReplicationStatus) {
        guard isJSON else { return Terminal.complain(ReplicationText.line(status, at: Date())) }
        // If nobody reads the output any more, the replication goes on.
        _ = try? Terminal.writeIfRead(PrintedJSON.object(status))
    }
}
