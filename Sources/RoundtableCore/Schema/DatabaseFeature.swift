import GRDB

/// A feature that each open database has, such as the history or the outbox. The core knows this role, and no feature by name: the target
/// `Roundtable` has the list, so that no program opens a database without them. Each opening makes its own features.
package protocol DatabaseFeature: AnyObject, Sendable {
    /// Checks what the schema and the options declare. This may add functions to all connections.
    ///
    /// - throws: why the declaration cannot be used. Nothing has been opened or created yet.
    init(_ opening: inout DatabaseOpening) throws

    /// What is set up together with the schema; nil if there is nothing.
    var schemaCompanion: (any SchemaCompanion)? { get }

    /// What takes part in the writes of a writer connection that is about to open; nil if there is nothing. An opening may open more than
    /// one connection.
    func writeCompanion() -> (any WriteCompanion)?

    /// What lives as long as the database; nil if there is nothing.
    var databaseCompanion: (any DatabaseCompanion)? { get }

    /// The database exists. The program does not have it yet.
    func attach(to database: SharedDatabase)

    /// The database is open for writing. It is not called for a read-only database.
    ///
    /// - throws: why it must be closed again.
    func databaseDidOpen(_ database: SharedDatabase) throws

    /// The content of a copy is about to replace that of the database (rule S15). Called in a write transaction on the copy.
    func contentWillReplaceOther(_ copy: Database) throws

    /// Other content is in the database. Called outside of accesses.
    func contentDidReplaceOther(in database: SharedDatabase)
}

extension DatabaseFeature {
    package var schemaCompanion: (any SchemaCompanion)? { nil }
    package func writeCompanion() -> (any WriteCompanion)? { nil }
    package var databaseCompanion: (any DatabaseCompanion)? { nil }
    package func attach(to database: SharedDatabase) {}
    package func databaseDidOpen(_ database: SharedDatabase) throws {}
    package func contentWillReplaceOther(_ copy: Database) throws {}
    package func contentDidReplaceOther(in database: SharedDatabase) {}
}

/// What the features know of a database before it is opened.
package struct DatabaseOpening: Sendable {
    package let path: String
    package let role: SharedDatabase.Role
    package let schema: SharedSchema
    package internal(set) var options: SharedDatabase.Options

    init(
        path: String,
        author: String,
        role: SharedDatabase.Role,
        schema: SharedSchema,
        options: SharedDatabase.Options
    ) {
        self.path = path
        self.role = role
        self.schema = schema
        self.options = options
        self.options.reporter = EventReporter(path: path, author: author, probe: options.eventProbe)
    }

    /// Receives what is reported, from now on.
    package var reporter: EventReporter { options.reporter }

    /// Adds functions to all connections.
    package mutating func add(_ functions: [DatabaseFunction]) {
        if functions.isEmpty { return }
        prepareConnections { db in
            for function in functions { db.add(function: function) }
        }
    }

    /// Prepares all connections before their first use.
    package mutating func prepareConnections(_ prepare: @escaping @Sendable (Database) throws -> Void) {
        options.configuration.prepareDatabase(prepare)
    }
}
