import GRDB
import RoundtableCore

// Rule E7: A migration that recreates a table removes its triggers. The looks of H8 find triggers that are missing, that differ from what
// the table needs (texts are compared byte for byte), or that fire after an AFTER trigger of the user's, and create them again with an
// empty projection, `building`; rows are derived at once for 10 ms, the rest by E6. The triggers that take notes stay (H12). A table that
// is gone, or cannot be derived from, makes the derived table `missing`. Only a participant that declares the derived table as it is stored looks.
// Triggers named `roundtable_…` do not count as others'.

/// Restores the triggers of the derived tables that a participant declares. After a schema change, its writer connection inspects the triggers
/// and makes damaged derived tables again (rule E7).
final class DerivedTableKeeper: WriteCompanion, @unchecked Sendable {
    // @unchecked: `willRebuild` is set before the connection is shared; the rest is confined to the writer's queue.
    private let registry: DerivedTableRegistry
    private var needsLook = true
    private var schemaVersion: Int32?
    /// Whether triggers were restored in the current transaction or in the last one.
    private var hasPut = false
    /// Receives the names of the derived tables that must be built again. It is called on the writer's queue, possibly inside a transaction.
    var willRebuild: ([String]) -> Void = { _ in }

    init(_ registry: DerivedTableRegistry) { self.registry = registry }

    func schemaDidChange() { needsLook = true }

    func didRollback() {
        if hasPut { needsLook = true }
    }

    /// Inspects the triggers before a write, inside or outside of a transaction. A failure does not make the write fail, because a later
    /// write tries again.
    func prepare(_ db: Database, schemaVersion pragma: ReusedQuery) {
        let version = pragma.value(db)
        if version != schemaVersion { needsLook = true }
        // After a failure, further reads would probably fail for the same reason, and each may last 10 s.
        guard needsLook, version != nil else { return }
        hasPut = false
        needsLook = (try? look(db)) == nil
        if !needsLook { schemaVersion = pragma.value(db) }
    }

    private func look(_ db: Database) throws {
        guard try StoredDerivedTable.exist(db), try !registry.defects(db).isEmpty else { return }
        var names: [String] = []
        hasPut = true
        try db.atomically { names = try registry.restore(db) }
        if !names.isEmpty { willRebuild(names) }
    }
}
