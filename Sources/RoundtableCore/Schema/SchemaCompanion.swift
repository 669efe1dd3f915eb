import GRDB

/// A feature that is set up together with the schema, under the same turn (rule E5).
package protocol SchemaCompanion: Sendable {
    /// Whether nothing has to be written.
    ///
    /// - throws: why the program may not write this database.
    func isCurrent(_ db: Database) throws -> Bool

    /// Called before migrations are applied, outside of a transaction.
    func prepareMigrations(_ db: Database) throws

    /// Called when a migration has failed, outside of a transaction. Removes what made it fail, if that belongs to the feature.
    ///
    /// - returns: whether the migration is to be tried again.
    func removeObstacle(_ error: any Error, _ db: Database) throws -> Bool

    /// Writes what is missing. Called after the migrations, inside a write transaction.
    func upgrade(_ db: Database) throws
}
