import ArgumentParser
import Foundation
import Roundtable
import RoundtableDelivery
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableToolSupport

/// What `ship` and `collect` share.
struct TravelOptions: ParsableArguments {
    @Flag(help: "Make one round, and end.")
    var once = false

    @Option(parsing: .unconditional, help: ArgumentHelp("How long to pause between two rounds.", valueName: "seconds"))
    var every = 2.0

    @Option(
        help: ArgumentHelp("The program rclone, if it is not in PATH.", valueName: "program"),
        completion: .file()
    )
    var rclone: String?

    @Flag(help: "Print one JSON object for each round.")
    var json = false

    @OptionGroup var others: OthersFolderOption

    func validate() throws {
        if !(every >= 0.05 && every <= 86400) {
            throw ValidationError("--every takes a number of seconds from 0.05 to 86400.")
        }
    }

    /// - Parameters:
    ///   - path: the database that the outbox lies beside, or the folder of the outbox.
    ///   - body: makes the traveller of a store, and returns what makes a round.
    func run(
        _ direction: OutboxTravelStatus.Direction,
        _ path: String,
        store place: GivenPlace,
        option: String,
        _ body: (OutboxFolder, any OutboxStore, any TravelEnding) throws -> () throws -> TravelRound
    ) throws {
        let url: StoreURL
        do { url = try StoreURL(place.text) } catch { throw ToolError("--\(option): \(error)") }
        if !once { place.warn(of: url.secrets, as: "--\(option)") }
        let program = try RcloneProgram.find(rclone)
        let version = try program.requireVersion()
        let folder = try Self.folder(others.resolved(path))
        try others.check(OpenFolder.ifThere(at: folder.path) ?? OpenFolder(at: folder.parent))
        try folder.translating { try folder.make() }
        try Self.check(direction, folder)
        let supervisor = TravelSupervisor()
        let signals = EndingSignals { _ in
            Terminal.complain("ending after the current transfer. A second signal ends it at once.")
            supervisor.end()
        }
        defer { signals.ignore() }
        let store = RcloneStore(program, url, folder: folder, ending: supervisor)
        let round = try body(folder, store, supervisor)
        if !once {
            let way =
                direction == .ship
                ? "shipping the commands of \(folder.path) to" : "collecting commands for \(folder.path) from"
            Terminal.complain("\(way) \(url.shown) with rclone \(version)")
        }
        let printer = TravelPrinter(isJSON: json)
        try supervisor.run(
            OutboxTravelStatus(direction, store: url.shown, version: version.description, at: Date()),
            inOutboxAt: folder.path,
            every: once ? nil : every,
            report: printer.print,
            round: round
        )
    }

    /// The outbox at a path: the folder itself, if it is one, else the one beside the database of that path, which need not exist.
    static func folder(_ path: String) throws -> OutboxFolder {
        let url = URL(fileURLWithPath: path)
        var isFolder: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: url.path, isDirectory: &isFolder)
        return exists && isFolder.boolValue ? try OutboxFolder(at: url) : try OutboxFolder(forDatabaseAt: url)
    }

    private static func check(_ direction: OutboxTravelStatus.Direction, _ folder: OutboxFolder) throws {
        if let other = OutboxTravelStatus.all(inOutboxAt: folder.path).first(where: {
            $0.direction == direction && $0.isAlive
        }) {
            let file = OutboxTravelStatus.file(direction, inOutboxAt: folder.path).url.path
            throw ToolError(
                """
                \(folder.path): 'roundtable outbox \(direction.rawValue)' (pid \(other.pid)) does that already, with \(other.store). End it first; or, \
                if it is another program, remove \(file), \(other.reporter.asFile), which says so.
                """
            )
        }
        // An owner here would apply the commands, and so would the owner at the collector (rule Z15).
        if direction == .ship, let owner = try folder.ownerships().first(where: { $0.database.isThere != false }) {
            throw ToolError(
                """
                \(folder.path): its commands are applied on this machine, to \(owner.database.path) by '\(owner.owner.claim)'. To have them \
                applied on another machine instead, move that database away; or, if that is not so, remove the record that says it\
                \(owner.file.map { ": \($0.path), \($0.owner.asFile)" } ?? "").
                """
            )
        }
    }
}

/// Prints what rounds have done.
private final class TravelPrinter {
    private let isJSON: Bool
    private var last: (state: OutboxTravelStatus.State, problem: String?)?

    init(isJSON: Bool) { self.isJSON = isJSON }

    func print(_ status: OutboxTravelStatus) {
        defer { last = (status.state, status.problem) }
        guard isJSON else {
            if last.map({ $0 != (status.state, status.problem) }) ?? true {
                Terminal.complain(OutboxTravelText.line(status, at: Date()))
            }
            return
        }
        // If nobody reads the output any more, the rounds go on.
        _ = try? Terminal.writeIfRead(PrintedJSON.object(status))
    }
}
