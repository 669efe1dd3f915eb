import GRDB

/// What the writer connection of a participant does for the extensions that it declares: after schema changes it looks whether their triggers
/// are still what they have to be (rule E7).
final class ExtensionKeeper: @unchecked Sendable {
    // @unchecked: `didMakeAnew` is set before the connection is shared; the rest is confined to the writer's queue.
    private let registry: ExtensionRegistry
    private var needsLook = true
    private var schemaVersion: Int32?
    /// Something was put in the transaction that goes on, or in the last one.
    private var hasPut = false
    private let schemaVersionStatement = ReusedPragma("PRAGMA main.schema_version")
    /// Called on the writer's queue, within a transaction perhaps.
    var didMakeAnew: ([String]) -> Void = { _ in }

    init(_ registry: ExtensionRegistry) { self.registry = registry }

    func schemaDidChange() { needsLook = true }

    func didRollback() {
        if hasPut { needsLook = true }
    }

    /// A connection with statements does not close.
    func forgetStatements() { schemaVersionStatement.forget() }

    /// Before a write, inside a transaction or outside of one. Never makes a write fail: what cannot be done now is done by a later one.
    func prepare(_ db: Database) {
        let version = schemaVersionStatement.value(db)
        if version != schemaVersion { needsLook = true }
        guard needsLook else { return }
        hasPut = false
        needsLook = (try? look(db)) == nil
        schemaVersion = schemaVersionStatement.value(db)
    }

    private func look(_ db: Database) throws {
        guard try StoredExtension.exist(db), try !registry.defects(db).isEmpty else { return }
        var names: [String] = []
        hasPut = true
        try db.atomically { names = try registry.synchronize(db) }
        if !names.isEmpty { didMakeAnew(names) }
    }
}
