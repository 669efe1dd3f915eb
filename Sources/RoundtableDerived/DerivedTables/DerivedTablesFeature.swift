import GRDB
import RoundtableCore

/// The derived tables of each database: set up with the schema, restored by the writer connection, built in the background.
package final class DerivedTablesFeature: DatabaseFeature {
    /// nil accepts the derived tables that the database has.
    private let registry: DerivedTableRegistry?
    /// nil when the participant declares no derived tables.
    private let builder: DerivedTableBuilder?
    private let temporaryCompany: TemporaryDerivedTable.Company?
    private let temporaryNames: [String]

    /// - throws: ``DerivedTableError/notUsable(name:reason:)``.
    package init(_ opening: inout DatabaseOpening) throws {
        registry = try opening.schema.derivedTables.map(DerivedTableRegistry.init)
        opening.add(registry?.functions ?? [])
        temporaryCompany = try opening.prepareTemporaryDerivedTables()
        temporaryNames = opening.options.temporaryDerivedTables.map(\.name)
        builder = DerivedTableBuilder(registry, opening.reporter)
    }

    package var schemaCompanion: (any SchemaCompanion)? { registry }

    package func writeCompanion() -> (any WriteCompanion)? {
        guard let registry, !registry.derivedTables.isEmpty else { return nil }
        return DerivedTableKeeper(registry)
    }

    /// Starts building in the background when a derived table has to be built again.
    package func attach(to database: SharedDatabase) {
        let keeper = database.writer.companions.lazy.compactMap { $0 as? DerivedTableKeeper }.first
        keeper?.willRebuild = { [weak database, builder] names in
            guard let database else { return }
            builder?.beginLater(database, rebuilding: names)
        }
    }

    /// - throws: ``DerivedTableError/temporaryNotAllowed(path:name:reason:)``.
    package func contentDidReplaceOther(in database: SharedDatabase) { builder?.begin(database) }

    package func databaseDidOpen(_ database: SharedDatabase) throws {
        guard database.role == .readWrite else { return }
        temporaryCompany?.take(database)
        if let reason = temporaryCompany?.refusal, let name = temporaryNames.first {
            throw DerivedTableError.temporaryNotAllowed(path: database.path, name: name, reason: reason)
        }
        builder?.begin(database)
    }
}

extension DerivedTableRegistry: SchemaCompanion {
    func prepareMigrations(_ db: Database) throws { try detaching(db) { try detachWhatChanges(db) } }

    func removeObstacle(_ error: any Error, _ db: Database) throws -> Bool {
        guard let name = Self.derivedTableInTheWay(error) else { return false }
        try detaching(db) {
            if let stored = try StoredDerivedTable.fetch(db, name) { try Self.detach(stored, db) }
        }
        return true
    }

    /// Runs `body`, which detaches derived tables, in a transaction, unless the database has no derived tables.
    private func detaching(_ db: Database, _ body: () throws -> Void) throws {
        guard try StoredDerivedTable.exist(db) else { return }
        try db.inTransaction(.immediate) {
            try body()
            return .commit
        }
    }
}
