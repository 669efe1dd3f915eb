import Foundation
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableKernel
import RoundtableToolSupport

/// Whether a database is still the writer's, for its supervisor (rule D5). Safe from any thread.
struct TermKeeper: Sendable {
    private let store: ClaimStore
    private let record: TermRecord
    private let path: String

    init(_ store: ClaimStore, databasePath path: String) {
        self.store = store
        self.path = path
        record = TermRecord(besideDatabaseAt: path)
    }

    /// The term of the database, by its own record; nil when it never was the writer's.
    var own: OwnTerm? { get throws { try record.term(at: store.url) } }

    /// Looks at the claims. Records term 0 if there are none, and uploads the own claim again if it is gone.
    ///
    /// - throws: `ToolError` if the record or the URL cannot be read.
    func look() throws -> TermStanding {
        let own = try own
        if let own, own.term.number > 0, own.isOfThisFile, try store.claim(ofTerm: own.term.number) == nil,
            try store.claim(ofTerm: own.term.number + 1) == nil
        {
            try store.upload(TermClaim(own.term, ofDatabaseAt: path))
        }
        let standing = TermStanding(of: own, in: try store.current(since: own?.term ?? .first))
        if case .writer(let term) = standing, own?.isOfThisFile != true {
            try record.set(term, at: store.url, ofDatabaseAt: path)
        }
        return standing
    }

    /// Lets no program on this machine write any more (rule D6).
    func fence(by claim: TermClaim, _ database: SharedDatabase) throws {
        var fence = FenceStatus(since: Date())
        fence.url = store.url.shown
        fence.term = claim.term.number
        fence.host = claim.host
        fence.path = claim.path
        fence.promoted = claim.time
        try FenceStatus.file(besideDatabaseAt: path).write(fence)
        database.announceFence()
    }

    /// The error of a database that is fenced already. The participants that are open learn of it, too, in case the last supervisor died
    /// before it notified them.
    static func refusal(_ fence: FenceStatus, databasePath path: String) -> ToolError {
        // A participant without a control block looks for the mark by itself.
        (try? ControlBlock.open(forDatabaseAt: path, writable: true))?.announceFence()
        return ToolError("\(path): \(fence.lines.what) \(fence.lines.next)")
    }
}
