import Dispatch
import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel

extension SharedDatabase {
    /// The result of opening a database read-only.
    public enum Availability: Sendable {
        case available(SharedDatabase)
        case unavailable(Unavailability)
    }

    /// Why a read-only process cannot use the database now.
    public enum Unavailability: Sendable, Equatable {
        /// There is no file or no folder, or the file has none of the schema's migrations. No read-write process has created the
        /// database yet, or one is creating it.
        case notCreated
        /// A read-write process still has to apply these migrations.
        case schemaTooOld(missingMigrations: [String])
        /// These migrations are unknown to this program, which is older than the one that applied them.
        case schemaTooNew(unknownMigrations: [String])
    }
}

extension SharedDatabase {
    /// Calls `open`. If the gate was closed, it waits for the gate and retries, or throws if ``Options/whileSuspended`` is
    /// `.fail`. When the task is cancelled, `open` ends soon, and this throws `CancellationError`.
    package static func whileOpen<T: Sendable>(
        _ options: Options,
        _ open: @escaping @Sendable (Options) throws -> T
    ) async throws -> T {
        let cancellation = OpeningCancellation()
        var options = options
        options.cancellation = cancellation
        var replacements = 0
        while true {
            do {
                return try await withTaskCancellationHandler { [options] in
                    try await offThread { Result { try open(options) } }.get()
                } onCancel: {
                    cancellation.cancel()
                }
            } catch  where cancellation.isCancelled {
                throw CancellationError()
            } catch let error where mayOpenAgain(after: error, &replacements) {
            } catch let gone as DatabaseIsGone {
                throw gone.error
            } catch let closed as GateClosed {
                if options.whileSuspended == .fail { throw DatabaseError.openingSuspended(closed.gate.path) }
                try await closed.gate.waitUntilOpen()
            }
        }
    }

    package static func whileOpen<T>(_ options: Options, _ open: (Options) throws -> T) throws -> T {
        var replacements = 0
        while true {
            do {
                return try open(options)
            } catch let error where mayOpenAgain(after: error, &replacements) {
            } catch let gone as DatabaseIsGone {
                throw gone.error
            } catch let closed as GateClosed {
                if options.whileSuspended != .wait { throw DatabaseError.openingSuspended(closed.gate.path) }
                closed.gate.waitUntilOpen()
            }
        }
    }

    /// Whether an opening failed because the database was moved aside meanwhile, so that another one finds what is there now.
    private static func mayOpenAgain(after error: any Error, _ replacements: inout Int) -> Bool {
        if case .fileLost? = error as? SharedDatabaseError {} else if !(error is DatabaseIsGone) { return false }
        replacements += 1
        return replacements <= 10
    }

    package static func openNow(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options,
        features: [any DatabaseFeature.Type]
    ) throws -> SharedDatabase {
        PlatformLifecycle.followOnce()
        let uri = try DatabaseURI(url)
        if options.createsParentFolders, uri["mode"] == nil || uri["mode"] == "rwc" { try uri.createParentFolders() }
        let file = try DatabaseFile(shared: uri)
        switch uri["mode"] {
        case "ro":
            switch try openReadOnlyNow(at: url, schema: schema, as: author, options: options, features: features) {
            case .available(let database): return database
            case .unavailable(let reason): throw DatabaseLocationError.unavailable(path: file.path, reason)
            }
        case "rw" where file.size == nil: throw DatabaseLocationError.noSuchFile(path: file.path)
        default: break
        }
        if options.configuration.readonly { throw SharedDatabaseError.readOnlyConfiguration(path: file.path) }
        if !options.followsOther { try ReadReplica.refuse(databasePath: file.path) }
        try Fence.refuse(databasePath: file.path)
        try file.checkWritable()
        try ForeignCompanions.refuse(databasePath: file.path)
        var opening = DatabaseOpening(
            path: file.path,
            author: author,
            role: .readWrite,
            schema: schema,
            options: options
        )
        let features = try features.map { try $0.init(&opening) }
        var options = opening.options
        options.files = DatabaseFiles(databasePath: file.path)
        if options.turnsOf?.lenders.contains(where: { $0.path == file.path }) == true { options.turnsOf = nil }
        try options.turnsOf?.checkMayLend(to: file.path)
        let gate = try options.openingGate(file.path)
        // The opening stays inside the gate until the database follows the gate.
        let database = try gate.opening {
            options.keying = try options.encryption.flatMap { try Keying($0, of: file, mayCreate: true) }
            let watch = NewerSchemaWatch(schema, path: file.path, options: options)
            let setUp = DatabaseSetUp(
                file: file,
                schema: schema,
                features: features,
                author: author,
                options: options,
                gate: gate,
                watch: watch
            )
            let (writer, seat) = try FileCoordination.perform(file, setUp.run)
            FileProtection.apply(options.protectionClass, to: file.path)
            return SharedDatabase(
                path: file.path,
                author: author,
                role: .readWrite,
                options: options,
                writer: writer,
                seat: seat,
                gate: gate,
                features: features
            )
        }
        do {
            for feature in features { try feature.databaseDidOpen(database) }
            if database.seat.hasSetUp { database.lender?.announce(.fullDatabase) }
            try options.cancellation?.end()
        } catch {
            try? database.close()
            throw error
        }
        return database
    }

    package static func openReadOnlyNow(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options,
        features: [any DatabaseFeature.Type]
    ) throws -> Availability {
        PlatformLifecycle.followOnce()
        let uri = try DatabaseURI(url)
        let file = try DatabaseFile(shared: uri)
        guard !file.isAbsentOrEmpty else { return .unavailable(.notCreated) }
        try ForeignCompanions.refuse(databasePath: file.path)
        var opening = DatabaseOpening(
            path: file.path,
            author: author,
            role: .readOnly,
            schema: schema,
            options: options
        )
        let features = try features.map { try $0.init(&opening) }
        var options = opening.options
        options.role = .readOnly
        options.files = DatabaseFiles(databasePath: file.path)
        let gate = try options.openingGate(file.path)
        // The first reader may have to recover the wal-index, under locks like a writer's. The opening stays inside the gate
        // until the database follows the gate.
        let availability: Availability = try gate.opening {
            if let encryption = options.encryption {
                guard let keying = try Keying(encryption, of: file, mayCreate: false) else {
                    return .unavailable(.notCreated)
                }
                options.keying = keying
            }
            let connection: WriterConnection
            let state: SchemaState
            do {
                connection = try WriterConnection(
                    readOnlyAt: file.path,
                    options: options,
                    gate: gate,
                    watch: NewerSchemaWatch(schema, path: file.path, options: options)
                )
                state = try connection.queue.read { db in
                    // Without WAL, readers hold locks for which the system kills the process.
                    if try !db.isInWALMode() { gate.releaseEverything() }
                    return try connection.schemaStateAtOpening(db)
                }
            } catch let error as DatabaseError {
                // The file may have been removed, or another process may be creating it, since the check above.
                if try DatabaseFile(shared: uri).isAbsentOrEmpty { return .unavailable(.notCreated) }
                try ReadingPlace.refuseStill(databasePath: file.path)
                throw error.naming(file.path)
            }
            switch state {
            case .absent: return .unavailable(.notCreated)
            case .tooOld(let missing): return .unavailable(.schemaTooOld(missingMigrations: missing))
            case .tooNew(let unknown): return .unavailable(.schemaTooNew(unknownMigrations: unknown))
            case .current: break
            }
            let seat = Seat(
                databasePath: file.path,
                author: author,
                role: .readOnly,
                settings: options.turnSettings,
                access: nil
            )
            return .available(
                SharedDatabase(
                    path: file.path,
                    author: author,
                    role: .readOnly,
                    options: options,
                    writer: connection,
                    seat: seat,
                    gate: gate,
                    features: features
                )
            )
        }
        do {
            try options.cancellation?.end()
        } catch {
            if case .available(let database) = availability { try? database.close() }
            throw error
        }
        return availability
    }
}
