extension SharedDatabase {
    /// What a participant does when another program applies migrations that the participant does not know, while it has the database
    /// open.
    ///
    /// The policy does not apply to opening: a database that is too new is not opened, whatever the policy
    /// (``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``).
    public enum NewerSchemaPolicy: String, Sendable, CaseIterable, Codable {
        /// Writes throw ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``, and nothing is written. Reads continue.
        case refuseWrites
        /// Reads and writes continue. The participant writes to a schema that it does not know: choose this only if each version of your
        /// program leaves what the versions before it need, such as columns with default values.
        case `continue`
        /// Writes throw the error, and the database is closed as by ``SharedDatabase/close()``, as soon as the running accesses have
        /// ended. Later accesses throw `SQLITE_MISUSE`.
        case close
    }
}

/// An event of the schema.
public enum SchemaEvent: Sendable, Equatable {
    /// Another program has applied these migrations, which this participant does not know. Reported again when it has applied more.
    case becameNewer(unknownMigrations: [String])
    /// The database has no unknown migration any more: it was restored from a backup, for example. Detected by write accesses, and by
    /// participants that observe.
    case isKnownAgain
}

extension SchemaEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .becameNewer: .warning
        case .isKnownAgain: .notice
        }
    }

    package var text: String {
        switch self {
        case .becameNewer(let unknown):
            """
            another program has applied \(unknown.map { "'\($0)'" }.joined(separator: ", ")), which this program does not know. Update this \
            program; Options.newerSchemaPolicy says what its writes do until then
            """
        case .isKnownAgain: "the database has no migration any more that this program does not know"
        }
    }
}

extension SharedDatabase {
    /// Lets the writer connection inspect the schema on another connection, and closes the database if that is the policy.
    func followSchema() {
        guard let watch = writer.watch else { return }
        writer.lookAside = { [readers] body in try readers.withConnectionAside(body) }
        watch.follow(
            // A read-only participant has no writes to refuse.
            show: { [seat, role] in if role == .readWrite { seat.show(refusesWrites: $0) } },
            close: { [weak self] in try self?.close() }
        )
    }
}
