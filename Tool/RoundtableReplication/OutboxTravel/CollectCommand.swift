import ArgumentParser
import Foundation
import Roundtable

package struct CollectCommand: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "collect",
        abstract: "Bring commands from other machines into an outbox, by rclone.",
        discussion: """
            Runs on the machine with the database, until Ctrl-C or SIGTERM. It brings the commands that 'roundtable outbox ship' has moved \
            to the store into the outbox, where the program that opens the database with handlers applies them, each once and in the \
            order of its sender; and it publishes their outcomes. There is one collector of a store.

            The store is what an installed rclone (https://rclone.org), version 1.55 or later, can reach: a folder, remote:path, or \
            :s3,provider=Other,endpoint='http://host',env_auth=true:bucket/path. Credentials come from its configuration or from the \
            environment. If a connection string has them, keep it out of the list of processes: --from @FILE, --from @env:NAME.

            Exit code: 0 when it has ended as asked; 1 when it could not start, when another collector has the store, or when the only round of \
            --once failed.
            """
    )

    @Argument(help: "The database that the outbox lies beside; or the folder of the outbox.", completion: .file())
    var path: String

    @Option(
        help: ArgumentHelp(
            "Where the store is, as rclone takes it; @FILE or @env:NAME, where that stands.",
            valueName: "url"
        ),
        transform: { try GivenPlace($0) }
    )
    var from: GivenPlace

    @Option(
        help: ArgumentHelp(
            "A snapshot file to publish, which 'ship --snapshots' receives. May be repeated.",
            valueName: "file"
        ),
        completion: .file()
    )
    var publish: [String] = []

    @Flag(help: "Replace another collector of the store, which is gone for good.")
    var takeOver = false

    @OptionGroup var options: TravelOptions

    package init() {}

    package func validate() throws {
        let names = publish.map { ($0 as NSString).lastPathComponent }
        if let name = names.first(where: { !StoredSnapshot.isUsable($0) }) {
            throw ValidationError(
                "--publish: '\(name)' cannot be published: a name has at most 180 bytes, does not begin with a dot, has no control characters, and does not end as that of a file beside a database, such as -wal or -fenced."
            )
        }
        if Set(names).count < names.count {
            throw ValidationError("--publish: two files have the same name, and would replace each other.")
        }
    }

    package func run() throws {
        let paths = publish.map { URL(fileURLWithPath: $0).standardizedFileURL.path }
        try options.run(.collect, path, store: from, option: "from") { folder, store, ending in
            let collector = OutboxCollector(
                folder,
                from: store,
                snapshots: paths,
                takesOver: takeOver,
                isEnding: { ending.request != .none }
            )
            return { try collector.round() }
        }
    }
}
