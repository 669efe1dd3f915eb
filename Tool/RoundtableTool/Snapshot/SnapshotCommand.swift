import ArgumentParser
import Dispatch
import Foundation
import Roundtable
import RoundtableToolSupport

struct SnapshotCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "snapshot",
        abstract: "Show what a snapshot file holds.",
        discussion: """
            Reads any file that SnapshotFile or a publisher has written, of whatever version: who wrote it, when, and the value, if it is JSON \
            or a property list. Opens no database, writes nothing, and makes no other process wait.

            With --watch, shows it again whenever it is replaced or removed, by any process, until Ctrl-C.

            Exit code: 0 when there is a value; 1 when there is no file, it is no snapshot file, or it cannot be read; 2 when it is damaged, \
            or of a newer format. With --watch, 0.

            Examples:
              roundtable snapshot widget.snapshot
              roundtable snapshot widget.snapshot --value | jq .openTasks
              roundtable snapshot widget.snapshot --watch --json
            """
    )

    @Argument(help: "The snapshot file.", completion: .file())
    var path: String

    @Flag(help: "Print JSON; with --watch, one object a line.")
    var json = false

    @Flag(help: "Print the value alone, as it is when it is neither JSON nor a property list.")
    var value = false

    @Flag(help: "Show it again whenever it is replaced.")
    var watch = false

    @Option(parsing: .unconditional, help: ArgumentHelp("With --watch: end after showing it so often.", valueName: "n"))
    var count: Int?

    func validate() throws {
        if json, value { throw ValidationError("--json has the value in it: leave --value out.") }
        if let count, !watch || count < 1 {
            throw ValidationError("--count goes with --watch, and takes a number that is at least 1.")
        }
    }

    func run() throws {
        let store = SnapshotReport.store(path)
        if watch { return try follow(store) }
        // Decoding and formatting a large value takes longer than reading the file.
        let (report, shown): (SnapshotReport, String?) = try RunningTime.show("reading the snapshot") {
            let report = try SnapshotReport(of: store, store.contents)
            return (report, value && report.outcome != .value ? nil : try text(report))
        }
        if let shown { Terminal.write(shown) } else { Terminal.complain(report.complaint) }
        switch report.outcome {
        case .value: break
        case .none:
            if !json, !value { Terminal.complain(report.complaint) }
            throw ExitCode(1)
        case .foreign: throw ExitCode(1)
        case .damaged, .tooNew: throw ExitCode(2)
        }
    }

    private func text(_ report: SnapshotReport) throws -> String {
        if json { return try report.json(onOneLine: watch) }
        // A pipe gets the value as it is.
        if value { return report.valueText.map { (Terminal.isInteractive ? $0.visibleText : $0) + "\n" } ?? "" }
        if report.outcome == .none, !watch { return "" }
        let lines = Terminal.dressed(report.lines)
        // A pipe gets the tabs of a value.
        return report.valueText.map { "\(lines)\n\(Terminal.dressed($0))\n" } ?? lines
    }

    private func follow(_ store: SnapshotStore) throws {
        let end = WatchEnd()
        let signals = EndingSignals { end.reach(.signal($0)) }
        defer { signals.ignore() }
        end.reachWhenUnread()
        let following = Task { [self] in
            let changes = SnapshotChanges(of: store)
            var shown = 0
            while await changes.next() {
                do {
                    if try !Terminal.writeIfRead(text(SnapshotReport(of: store, changes.contents))) {
                        return end.reach(.unread)
                    }
                } catch {
                    return end.reach(.unwritable(error))
                }
                shown += 1
                if shown == count { return end.reach(.enough) }
            }
        }
        let reason = end.wait(until: .distantFuture)
        following.cancel()
        switch reason {
        case .signal(let number): throw ExitCode(128 + number)
        case .unwritable(let error): throw error
        case .enough, .unread, .gone, nil: return
        }
    }
}
