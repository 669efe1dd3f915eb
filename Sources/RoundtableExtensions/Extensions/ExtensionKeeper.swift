import GRDB
import RoundtableCore
import RoundtableTables

/// Restores the triggers of the extensions that a participant declares. After a schema change, its writer connection inspects the triggers
/// and makes damaged extensions again (rule E7).
final class ExtensionKeeper: WriteCompanion, @unchecked Sendable {
    // @unchecked: `willRebuild` is set before the connection is shared; the rest is confined to the writer's queue.
    private let registry: ExtensionRegistry
    private var needsLook = true
    private var schemaVersion: Int32?
    /// Whether triggers were restored in the current transaction or in the last one.
    private var hasPut = false
    private let schemaVersionStatement = ReusedPragma("PRAGMA main.schema_version")
    /// Receives the names of the extensions that must be built again. It is called on the writer's queue, possibly inside a transaction.
    var willRebuild: ([String]) -> Void = { _ in }

    init(_ registry: ExtensionRegistry) { self.registry = registry }

    func schemaDidChange() { needsLook = true }

    func didRollback() {
        if hasPut { needsLook = true }
    }

    /// Finalizes the statement, because SQLite does not close a connection that has statements.
    func forgetStatements() { schemaVersionStatement.forget() }

    /// Inspects the triggers before a write, inside or outside of a transaction. A failure does not make the write fail, because a later
    /// write tries again.
    func prepare(_ db: Database) {
        let version = schemaVersionStatement.value(db)
        if version != schemaVersion { needsLook = true }
        // After a failure, further reads would probably fail for the same reason, and each may last 10 s.
        guard needsLook, version != nil else { return }
        hasPut = false
        needsLook = (try? look(db)) == nil
        if !needsLook { schemaVersion = schemaVersionStatement.value(db) }
    }

    private func look(_ db: Database) throws {
        guard try StoredExtension.exist(db), try !registry.defects(db).isEmpty else { return }
        var names: [String] = []
        hasPut = true
        try db.atomically { names = try registry.restore(db) }
        if !names.isEmpty { willRebuild(names) }
    }
}
