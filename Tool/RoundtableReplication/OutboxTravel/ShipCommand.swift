import ArgumentParser
import Foundation
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

package struct ShipCommand: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "ship",
        abstract: "Move the commands of an outbox to another machine, by rclone.",
        discussion: """
            Runs on the machine whose programs submit commands, until Ctrl-C or SIGTERM. It moves the commands to a store, from where \
            'roundtable outbox collect' brings them to the machine with the database, and brings their outcomes back, as well as the \
            snapshot files that are published there. A command stays here until its outcome is known.

            The store is what an installed rclone (https://rclone.org), version 1.55 or later, can reach: a folder, remote:path, or \
            :s3,provider=Other,endpoint='http://host',env_auth=true:bucket/path. Credentials come from its configuration or from the \
            environment. If a connection string has them, keep it out of the list of processes: --to @FILE, --to @env:NAME.

            Exit code: 0 when it has ended as asked; 1 when it could not start, when the only round of --once failed.
            """
    )

    @Argument(
        help: "The database that the outbox lies beside, which need not exist; or the folder of the outbox.",
        completion: .file()
    )
    var path: String

    @Option(
        help: ArgumentHelp(
            "Where the store is, as rclone takes it; @FILE or @env:NAME, where that stands.",
            valueName: "url"
        ),
        transform: { try GivenPlace($0) }
    )
    var to: GivenPlace

    @Option(
        help: ArgumentHelp(
            "Where the snapshot files go that 'collect' publishes (default: they stay in the store).",
            valueName: "folder"
        ),
        completion: .directory
    )
    var snapshots: String?

    @OptionGroup var options: TravelOptions

    package init() {}

    package func run() throws {
        let snapshotFolder = try snapshots.map { try options.others.resolved($0) }
        if let snapshotFolder {
            var isFolder: ObjCBool = false
            guard FileManager.default.fileExists(atPath: snapshotFolder, isDirectory: &isFolder), isFolder.boolValue
            else {
                throw ToolError("\(snapshotFolder): there is no such folder. Create it, or correct --snapshots.")
            }
            try options.others.check(OpenFolder(at: snapshotFolder))
        }
        try options.run(.ship, path, store: to, option: "to") { folder, store, _ in
            let shipper = OutboxShipper(folder, to: store, snapshotFolder: snapshotFolder, complain: Terminal.complain)
            return { try shipper.round() }
        }
    }
}
