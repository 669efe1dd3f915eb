import Foundation
import GRDB
import RoundtableCore

extension SharedDatabase {
    /// Opens a read replica: a database that `roundtable follow` keeps up to date with one on another machine.
    ///
    /// Any number of processes open it. They read, and observe: each new state is one commit, which touches all tables. They never see a
    /// part of a state, nor an earlier one after a later one. A write throws `SQLITE_READONLY`, with a message that names the outbox.
    /// ``ReplicaStatus/init(ofDatabaseAt:)`` says how old the state is.
    ///
    /// - Parameters:
    ///   - url: the database file that the follower has created.
    ///   - schema: what this process expects.
    ///   - author: the name of this participant for other processes.
    ///   - options: how to read.
    ///   - timeout: how long to wait for the first state. When it passes, the function returns the last reason why the database is
    ///     unavailable, such as ``Unavailability/notCreated``.
    /// - throws: `SQLITE_MISUSE` if there is a database that is no read replica; otherwise as ``openReadOnly(at:schema:as:options:)``.
    public static func openReplica(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options = Options(),
        waitingUpTo timeout: Duration = .zero
    ) async throws -> Availability {
        let availability = try await openReadOnly(
            at: url,
            schema: schema,
            as: author,
            options: options,
            waitingUpTo: timeout
        )
        return try checked(availability)
    }

    /// Opens a read replica as the async function of the same name does, without waiting for the first state, and blocks the calling thread.
    @_disfavoredOverload
    public static func openReplica(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options = Options()
    ) throws -> Availability {
        try checked(try openReadOnly(at: url, schema: schema, as: author, options: options))
    }

    /// The mark of a read replica is there before the database, and remains when the follower ends.
    private static func checked(_ availability: Availability) throws -> Availability {
        guard case .available(let database) = availability, !ReadReplica.exists(databasePath: database.path) else {
            return availability
        }
        let path = database.path
        try database.close()
        throw DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: """
                \(path): is not a read replica: 'roundtable follow' has not created it. Open it with open(at:) or openReadOnly(at:)
                """
        )
    }
}
