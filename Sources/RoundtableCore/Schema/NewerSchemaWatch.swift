import Dispatch
import GRDB
import Synchronization

// Rule S8: The *mark* of a schema is `PRAGMA schema_version` together with the last row of `grdb_migrations`, by rowid. A participant that
// sees another mark reads the applied migrations. If it does not know one, the database is *newer*; its policy is to refuse writes (the
// default), to continue, or to close.

// Rule S11: A read that sees another mark looks too, and reports. It is never refused, and it ends as it would have. Its snapshot may be an
// old one, so it reports only migrations that were not reported before, and never that the database is no longer newer.

// Rule S14: *Close* closes the participant on another thread, after the access that saw the newer database, and tries again each second
// while something keeps it open. Until then writes are refused. A database that is no longer newer, such as one that was restored from a
// backup, is written again, and that is reported.

/// Detects that another program has applied migrations that this participant does not know, and applies the policy (rules S8–S11, S13, S14).
final class NewerSchemaWatch: Sendable {
    /// A value that changes with each migration that is applied (rule S8).
    struct Mark: Equatable {
        var schemaVersion: Int64?
        var lastMigration: String?

        static let lastMigrationQuery = "SELECT identifier FROM main.grdb_migrations ORDER BY rowid DESC LIMIT 1"
    }

    /// The schema as one connection has last seen it. Confined to where that connection is used.
    struct Sight {
        var mark: Mark?
        /// The migrations that the participant does not know, at that mark.
        var unknown: [String] = []
    }

    private struct State {
        /// The last schema version at which all migrations were known, for readers that begin.
        var knownSchemaVersion: Int64?

        // Rule S13: Migrations that the participant's own writer connection has applied, with another migrator than that of its schema, are
        // known from then on, unless another connection commits before they are read.

        /// Migrations that this participant has applied with another migrator (rule S13).
        var own: Set<String> = []
        /// Whether this participant is committing migrations, which are not in `own` yet.
        var isMigrating = false
        var reported: [String] = []
        var isClosing = false
        var close: (@Sendable () throws -> Void)?
        var show: (@Sendable (_ refusesWrites: Bool) -> Void)?
    }

    private let path: String
    let schema: SharedSchema
    private let migrator: DatabaseMigrator
    let policy: SharedDatabase.NewerSchemaPolicy
    private let reporter: EventReporter
    private let state = Mutex(State())
    /// Closes the database, outside of accesses.
    private let queue = DispatchQueue(label: "roundtable.schema")
    private static let closingInterval = DispatchTimeInterval.seconds(1)

    /// - returns: nil for a schema without migrations.
    init?(_ schema: SharedSchema, path: String, options: SharedDatabase.Options) {
        guard let migrator = schema.migrator else { return nil }
        self.path = path
        self.schema = schema
        self.migrator = migrator
        policy = options.newerSchemaPolicy
        reporter = options.reporter
    }

    /// - Parameters:
    ///   - show: shows other participants whether writes are refused.
    ///   - close: closes the database.
    func follow(
        show: @escaping @Sendable (_ refusesWrites: Bool) -> Void,
        close: @escaping @Sendable () throws -> Void
    ) {
        state.withLock {
            $0.show = show
            $0.close = close
        }
    }

    // MARK: Inspecting the schema

    /// The schema's state when the database is opened. The connections that are opened next need not look again until it changes.
    ///
    /// - returns: the state, and what was seen.
    func stateAtOpening(_ db: Database) throws -> (SchemaState, Sight) {
        // The version is read before the migrations, so that what is applied in between shows as another mark.
        let version = try Mark.schemaVersion(db)
        let applied = try migrator.appliedWhileOthersMigrate(db)
        let mark = Mark(schemaVersion: version, lastMigration: applied.last)
        let found = schema.state(withApplied: applied)
        guard found == .current else { return (found, Sight()) }
        state.withLock { $0.knownSchemaVersion = mark.schemaVersion }
        return (found, Sight(mark: mark))
    }

    /// Inspects the schema again if the mark has changed. The connection must see the newest commit, or hold the WRITE lock.
    ///
    /// - parameter last: what was seen at the last inspection.
    /// - parameter applied: the identifiers of the applied migrations, not older than the mark.
    func look(after last: Sight, at mark: Mark, _ applied: () throws -> Set<String>) rethrows -> Sight {
        guard mark != last.mark else {
            if !last.unknown.isEmpty { closeIfWanted() }
            return last
        }
        let unknown = unknown(among: try applied())
        report(unknown, mark, isNewest: true)
        return Sight(mark: mark, unknown: unknown)
    }

    /// Called when a reader sees another schema version than in its last read. Its transaction may see an older snapshot of the
    /// database.
    ///
    /// - returns: false if the reader should inspect the schema again in its next read.
    func readerSees(_ schemaVersion: Int64, _ db: Database) -> Bool {
        let (known, isMigrating) = state.withLock { ($0.knownSchemaVersion, $0.isMigrating) }
        if isMigrating { return false }
        if known == schemaVersion { return true }
        // If the read fails for this reason, it reports that itself.
        guard let applied = try? applied(db) else { return true }
        report(unknown(among: applied), Mark(schemaVersion: schemaVersion), isNewest: false)
        return true
    }

    func applied(_ db: Database) throws -> Set<String> { Set(try migrator.appliedWhileOthersMigrate(db)) }

    private func unknown(among applied: Set<String>) -> [String] {
        let own = state.withLock { $0.own }
        return schema.unknown(among: applied).filter { !own.contains($0) }
    }

    /// Whether a commit of migrations may be visible that are not among the participant's own yet.
    var isMigrating: Bool {
        get { state.withLock { $0.isMigrating } }
        set { state.withLock { $0.isMigrating = newValue } }
    }

    /// Marks these migrations as known, after this participant has applied migrations with another migrator.
    func add(own applied: Set<String>) { state.withLock { $0.own.formUnion(applied) } }

    /// The migrations that this participant does not know, as it was last reported. Safe from any thread.
    var reported: [String] { state.withLock { $0.reported } }

    // MARK: Applying the policy

    /// - throws: ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``.
    func admitWrite(_ sight: Sight) throws {
        if sight.unknown.isEmpty || policy == .continue { return }
        throw SharedDatabaseError.schemaTooNew(path: path, unknownMigrations: sight.unknown)
    }

    private func report(_ unknown: [String], _ mark: Mark, isNewest: Bool) {
        let event: SchemaEvent? = state.withLock { state in
            if unknown.isEmpty { state.knownSchemaVersion = mark.schemaVersion }
            let isNews = isNewest ? unknown != state.reported : !Set(unknown).isSubset(of: state.reported)
            guard isNews else { return nil }
            state.reported = unknown
            if policy != .continue { state.show?(!unknown.isEmpty) }
            return unknown.isEmpty ? .isKnownAgain : .becameNewer(unknownMigrations: unknown)
        }
        if let event { reporter.report(event) }
        if !unknown.isEmpty { closeIfWanted() }
    }

    private func closeIfWanted() {
        guard policy == .close else { return }
        let isWanted = state.withLock { state in
            defer { state.isClosing = true }
            return !state.isClosing
        }
        if isWanted { queue.async { self.close() } }
    }

    /// Closes the database, and retries while a statement or a raw handle keeps it open. Must not be called within an access.
    private func close() {
        do {
            try state.withLock { $0.close }?()
        } catch {
            queue.asyncAfter(deadline: .now() + Self.closingInterval) { [weak self] in self?.close() }
        }
    }
}

extension NewerSchemaWatch.Mark {
    /// Reads the mark on any connection.
    init(_ db: Database) throws {
        self.init(
            schemaVersion: try Self.schemaVersion(db),
            lastMigration: try ReusedQuery(Self.lastMigrationQuery).text(db)
        )
    }

    static func schemaVersion(_ db: Database) throws -> Int64 {
        try db.directTexts("PRAGMA main.schema_version")?.first.flatMap { Int64($0) } ?? Int64(db.schemaVersion())
    }
}
