import ArgumentParser
import Foundation
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

package struct PromoteCommand: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "promote",
        abstract: "Make this machine the writer of a replicated database, instead of one that is lost.",
        discussion: """
            Claims the next term at the URL, which fences the machine that was the writer: its 'roundtable replicate' ends when it sees the \
            claim, and its programs cannot write any more. Then it restores the newest state, as 'roundtable restore' does, and says how to \
            replicate from here. Followers of the URL continue with what is replicated from here.

            Commits that the other machine has not uploaded are lost, as far as they are not on its disk. If that machine still works, end \
            its programs, and then its 'roundtable replicate', which uploads the rest, before you promote another one.

            Not for nats:// URLs, which name a bucket without folders.

            With --json, prints the JSON object of 'roundtable restore', with "promoted_term".

            Exit code: 0 when this machine is the writer; 1 when not; 130 after Ctrl-C. Promote again after a failure.

            Examples:
              roundtable promote s3://bucket/app app.db
              roundtable promote s3://bucket/app app.db --replace
            """
    )

    @Argument(
        help: "The replica, as 'roundtable replicate --to' was given it; @FILE or @env:NAME, where that stands.",
        transform: { try GivenPlace($0) }
    )
    var url: GivenPlace

    @Argument(help: "The database file to create.", completion: .file())
    var path: String

    @Flag(help: "Move a database that is there, with its -wal and other files, to a folder beside it.")
    var replace = false

    @Option(
        name: .customLong("litestream"),
        help: ArgumentHelp("The program 'litestream', if it is not in PATH.", valueName: "path"),
        completion: .file()
    )
    var program: String?

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var others: OthersFolderOption

    package init() {}

    package func validate() throws {
        let parsed: ReplicaURL
        do { parsed = try ReplicaURL(url.text) } catch { throw ValidationError(error.description) }
        if !parsed.hasTerms {
            throw ValidationError(
                "\(parsed.shown): a NATS bucket has no folders for terms. Restore the database, and replicate it to another bucket."
            )
        }
    }

    package func run() throws {
        let url = try ReplicaURL(url.text)
        let litestream = try LitestreamProgram.find(program)
        try litestream.requireVersion()
        let target = try RestoreTarget(path, checkingLinks: others.checkLink)
        try others.check(target.files, replacing: target.existing)
        if let folder = url.folder, let replica = try OpenFolder.ifThere(at: folder, followingLinks: true) {
            try others.check(replica)
        }
        try target.removeAbandoned()
        try target.check(isReplacing: replace)

        let style: RestoreProgress.Style = json ? .none : isatty(STDERR_FILENO) == 1 ? .bar : .lines
        let progress = RestoreProgress(style)
        let ending = RestoreEnding(result: "nothing was restored. Promote again, here or elsewhere") {
            progress.clear()
        }
        let signals = EndingSignals { ending.receive($0) }
        defer { signals.ignore() }
        let staging = try target.makeStagingFolder()
        defer { staging.remove() }
        let job = RestoreJob(
            litestream: litestream,
            url: url,
            at: nil,
            staging: staging,
            target: target,
            ending: ending,
            progress: progress,
            style: style
        )
        let report = try promote(job)
        Terminal.write(json ? report.json : Terminal.dressed(report.lines))
    }

    private func promote(_ job: RestoreJob) throws -> RestoreReport {
        let claims = job.claims
        let current = try claims.current()
        // Nothing is claimed where there is nothing to restore, or no room for it.
        let (plan, _, _) = try job.plan(TermPlaces(claims, from: current))
        let free = GrowingFile(folder: job.staging.folder, name: "database").freeSpace ?? .max
        if free < plan.size.addingSaturating(1_000_000) {
            throw ToolError(
                "\(job.target.folder): has \(free.byteSize) free, and the backup has \(plan.size.byteSize). Make room, and promote again."
            )
        }
        let claim = TermClaim((current?.term ?? .first).next, ofDatabaseAt: job.target.path)
        try claims.upload(claim)
        let confirm = {
            guard let winner = try claims.current(since: claim.term), winner != claim else { return }
            throw ToolError(
                "\(job.url.shown): another machine was promoted meanwhile: \(winner.writer). Nothing was restored here. To be the writer, promote again."
            )
        }
        try confirm()
        let report = try job.run(from: claim, isReplacing: replace, promoted: claim.term, confirm: confirm)
        if let winner = try? claims.current(since: claim.term), winner != claim {
            throw ToolError(
                "\(job.url.shown): another machine was promoted meanwhile: \(winner.writer). The database was restored to \(report.path), and its first 'roundtable replicate' fences it. To be the writer, promote again with --replace."
            )
        }
        return report
    }
}
