import GRDB
import RoundtableCore

/// The extensions of each database: set up with the schema, restored by the writer connection, built in the background.
package final class ExtensionsFeature: DatabaseFeature {
    /// nil accepts the extensions that the database has.
    private let registry: ExtensionRegistry?
    /// nil when the participant declares no extensions.
    private let builder: ExtensionBuilder?
    private let temporaryCompany: TemporaryExtension.Company?
    private let temporaryNames: [String]

    /// - throws: ``ExtensionError/notUsable(name:reason:)``.
    package init(_ opening: inout DatabaseOpening) throws {
        registry = try opening.schema.extensions.map(ExtensionRegistry.init)
        opening.add(registry?.functions ?? [])
        temporaryCompany = try opening.prepareTemporaryExtensions()
        temporaryNames = opening.options.temporaryExtensions.map(\.name)
        builder = ExtensionBuilder(registry, opening.reporter)
    }

    package var schemaCompanion: (any SchemaCompanion)? { registry }

    package func writeCompanion() -> (any WriteCompanion)? {
        guard let registry, !registry.extensions.isEmpty else { return nil }
        return ExtensionKeeper(registry)
    }

    /// Starts building in the background when an extension has to be built again.
    package func attach(to database: SharedDatabase) {
        let keeper = database.writer.companions.lazy.compactMap { $0 as? ExtensionKeeper }.first
        keeper?.willRebuild = { [weak database, builder] names in
            guard let database else { return }
            builder?.beginLater(database, rebuilding: names)
        }
    }

    /// - throws: ``ExtensionError/temporaryNotAllowed(path:name:reason:)``.
    package func contentDidReplaceOther(in database: SharedDatabase) { builder?.begin(database) }

    package func databaseDidOpen(_ database: SharedDatabase) throws {
        guard database.role == .readWrite else { return }
        temporaryCompany?.take(database)
        if let reason = temporaryCompany?.refusal, let name = temporaryNames.first {
            throw ExtensionError.temporaryNotAllowed(path: database.path, name: name, reason: reason)
        }
        builder?.begin(database)
    }
}

extension ExtensionRegistry: SchemaCompanion {
    func prepareMigrations(_ db: Database) throws { try detaching(db) { try detachWhatChanges(db) } }

    func removeObstacle(_ error: any Error, _ db: Database) throws -> Bool {
        guard let name = Self.extensionInTheWay(error) else { return false }
        try detaching(db) {
            if let stored = try StoredExtension.fetch(db, name) { try Self.detach(stored, db) }
        }
        return true
    }

    /// Runs `body`, which detaches extensions, in a transaction, unless the database has no extensions.
    private func detaching(_ db: Database, _ body: () throws -> Void) throws {
        guard try StoredExtension.exist(db) else { return }
        try db.inTransaction(.immediate) {
            try body()
            return .commit
        }
    }
}
