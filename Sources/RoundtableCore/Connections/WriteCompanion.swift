import GRDB

/// A feature that takes part in every write of a participant. The history stamps its rows, the extensions repair their triggers: the writer
/// connection knows this role, and no feature by name. `Features.swift` of Roundtable has the list.
///
/// The methods are called on the writer's queue, or before the connection is shared with other threads.
package protocol WriteCompanion: AnyObject, Sendable {
    /// A connection opens, for the first time or again after parking. No statement has run on it yet.
    func install(in db: Database) throws

    /// The participant has its seat at the control block.
    func participantDidJoin(as author: String)

    /// Another process has changed the schema.
    func schemaDidChange()

    /// Called before a write, inside or outside of a transaction. It never makes the write fail: what cannot be done now is done before a later write.
    ///
    /// - parameter schemaVersion: `PRAGMA main.schema_version`, compiled.
    func prepare(_ db: Database, schemaVersion: ReusedQuery)

    /// A transaction was rolled back.
    func didRollback()
}

extension WriteCompanion {
    package func install(in db: Database) throws {}
    package func participantDidJoin(as author: String) {}
}
