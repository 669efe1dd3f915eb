import Foundation
import RoundtableCore

extension SharedDatabase {
    /// Opens the database at a location for reading and writing, or for reading if the location says `mode=ro`.
    ///
    /// Locations that would break sharing are refused with the reason: memory, a temporary database, `nolock`, `immutable`, a VFS that is
    /// not the default one, `cache=shared`, and parameters that cannot apply to all connections (see ``ShareHindrance``).
    /// ``UnsharedDatabase`` opens such locations for this process alone.
    ///
    /// - Parameters:
    ///   - location: Without a `mode`, or with `mode=rwc`, it is opened as by `open(at:)` with a file URL. With `mode=rw`, the
    ///     file must exist. With `mode=ro`, it is opened as by `openReadOnly(at:)`, and a database that is unavailable is an
    ///     error.
    ///   - schema: the migrations and extensions of this program.
    ///   - author: the name of this process, for people: in errors, and in `roundtable status`.
    ///   - options: how the participant opens, waits and writes.
    /// - throws: ``DatabaseLocationError``, and what `open(at:)` with a file URL throws.
    public static func open(
        at location: DatabaseLocation,
        schema: Schema,
        as author: String,
        options: Options = Options()
    ) async throws -> SharedDatabase {
        let (file, mode) = try shareable(location)
        if mode == .readOnly {
            return try await openReadOnly(at: file, schema: schema, as: author, options: options).get(file)
        }
        return try await open(at: file, schema: schema, as: author, options: options)
    }

    /// Opens the database at a location like the asynchronous `open(at:)`, but blocks the calling thread.
    @_disfavoredOverload
    public static func open(
        at location: DatabaseLocation,
        schema: Schema,
        as author: String,
        options: Options = Options()
    ) throws -> SharedDatabase {
        let (file, mode) = try shareable(location)
        if mode == .readOnly {
            let answer: Availability = try openReadOnly(at: file, schema: schema, as: author, options: options)
            return try answer.get(file)
        }
        return try open(at: file, schema: schema, as: author, options: options)
    }

    /// Opens the database at a location for reading, whatever its `mode`. See `openReadOnly(at:)` with a file URL.
    ///
    /// - throws: ``DatabaseLocationError``, and what `openReadOnly(at:)` with a file URL throws.
    public static func openReadOnly(
        at location: DatabaseLocation,
        schema: Schema,
        as author: String,
        options: Options = Options()
    ) async throws -> Availability {
        try await openReadOnly(at: location.sharedFile(), schema: schema, as: author, options: options)
    }

    /// Opens the database at a location like the asynchronous `openReadOnly(at:)`, but blocks the calling thread.
    @_disfavoredOverload
    public static func openReadOnly(
        at location: DatabaseLocation,
        schema: Schema,
        as author: String,
        options: Options = Options()
    ) throws -> Availability {
        try openReadOnly(at: location.sharedFile(), schema: schema, as: author, options: options)
    }

    /// Opens the database at a location for reading, and waits until other processes have created and migrated it.
    ///
    /// - Parameters:
    ///   - location: the location to open.
    ///   - schema: the migrations and extensions of this program.
    ///   - author: the name of this process, for people: in errors, and in `roundtable status`.
    ///   - options: how the participant opens, waits and writes.
    ///   - timeout: how long to wait.
    /// - throws: ``DatabaseLocationError``, and what `openReadOnly(at:)` with a file URL throws.
    public static func openReadOnly(
        at location: DatabaseLocation,
        schema: Schema,
        as author: String,
        options: Options = Options(),
        waitingUpTo timeout: Duration
    ) async throws -> Availability {
        try await openReadOnly(
            at: location.sharedFile(),
            schema: schema,
            as: author,
            options: options,
            waitingUpTo: timeout
        )
    }

    private static func shareable(_ location: DatabaseLocation) throws -> (file: URL, mode: DatabaseURI.Mode?) {
        let uri = try location.uri()
        let file = try location.sharedFile()
        if uri.mode == .readWrite, !FileManager.default.fileExists(atPath: file.path) {
            throw DatabaseLocationError.noSuchFile(path: file.path)
        }
        return (file, uri.mode)
    }
}

extension SharedDatabase.Availability {
    fileprivate func get(_ file: URL) throws -> SharedDatabase {
        switch self {
        case .available(let database): return database
        case .unavailable(let reason): throw DatabaseLocationError.unavailable(path: file.path, reason)
        }
    }
}
