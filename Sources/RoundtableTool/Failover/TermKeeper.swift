import Foundation
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableKernel

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

    /// The term in which the database is the writer's, by its own record; nil when it never was.
    var own: ReplicaTerm? { get throws { try record.term(at: store.url) } }

    /// Looks at the claims, and records term 0 if there are none.
    ///
    /// - throws: `ToolError` if the URL cannot be read.
    func look() throws -> TermStanding {
        let own = try own
        let standing = TermStanding(of: own, in: try store.current(since: own ?? .first))
        if case .writer(let term) = standing, own == nil { try record.set(term, at: store.url) }
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
    /// before it told them.
    static func refusal(_ fence: FenceStatus, databasePath path: String) -> ToolError {
        // A participant without a control block looks for the mark by itself.
        (try? ControlBlock.open(forDatabaseAt: path, writable: true))?.announceFence()
        return ToolError("\(path): \(fence.lines.what) \(fence.lines.next)")
    }
}
