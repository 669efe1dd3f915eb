import GRDB
import RoundtableCore
import RoundtableTables

/// Recording inside a transaction. Each function runs in a savepoint, so that an error leaves nothing half done.
extension DatabaseHistory {
    /// Records all changes of a table from now on, in the transaction of `db`, for migrations. A migration that recreates the table
    /// calls it to create the triggers again in the same transaction.
    ///
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)``, ``HistoryError/newerFormat(path:format:)``.
    public static func enable(
        for table: String,
        recording: HistoryRecording = .rows,
        keeping: OldValuePolicy = [],
        in db: Database
    ) throws {
        try db.atomically {
            // The table is checked before anything is created for it.
            let shape = try TableShape(toRecord: table, db)
            if recording == .changedColumns, shape.columns.count > HistoryTriggers.maximumColumnCount {
                throw HistoryError.cannotTrack(
                    path: db.filePath,
                    table: table,
                    reason: """
                        it has \(shape.columns.count) columns, and changed columns can be recorded for \(HistoryTriggers.maximumColumnCount) \
                        at most. Record .rows.
                        """
                )
            }
            var declared: [KeptColumn] = []
            try declared.add(keeping, of: shape, path: db.filePath)
            try HistoryTables.createIfAbsent(db)
            try HistoryState.checkFormat(db)
            if !declared.isEmpty { try HistoryTables.addColumnsForValues(db) }
            var tracked =
                try Self.tracked(shape.name, db)
                ?? TrackedTable.insert(db, name: shape.name, recording: recording)
            let (wasIntact, isIntactAndNewer) = (tracked.isIntact, tracked.isIntactAndNewer)
            if tracked.state == .disabled {
                tracked.recording = recording
                tracked.kept.restrict(to: [])
            }
            if recording == .changedColumns { tracked.recording = recording }
            try tracked.kept.add(keeping, of: shape, path: db.filePath)
            try HistoryStamp.install(in: db)
            // The program of the later version puts triggers that record what is asked for, when it finds this row (rule H8).
            if isIntactAndNewer { try tracked.update(db) } else { try tracked.putTriggers(db, wasIntact: wasIntact) }
        }
    }

    /// Keeps no more old values of these columns. Values that were kept can be read until they are pruned. Call it before
    /// `ALTER TABLE … DROP COLUMN`, in the same migration, because SQLite refuses to drop a column that a trigger reads.
    ///
    /// - Parameters:
    ///   - columns: nil for all columns of the table.
    ///   - table: the name of the table.
    ///   - db: a connection in a write transaction.
    /// - throws: ``HistoryError/notTracked(path:table:)``, ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``.
    public static func stopKeeping(_ columns: Set<String>? = nil, of table: String, in db: Database) throws {
        try db.atomically {
            var tracked = try recorded(table, db)
            let wasIntact = tracked.isIntact
            let names = columns.map { Set($0.map { $0.lowercased() }) }
            let remaining = tracked.kept.map(\.name).filter { names?.contains($0.lowercased()) == false }
            tracked.kept.restrict(to: Set(remaining))
            try tracked.putTriggers(db, wasIntact: wasIntact)
        }
    }

    /// Continues recording without the changed columns, and deletes the changed columns that were recorded. Call it before
    /// `ALTER TABLE … DROP COLUMN`, in the same migration.
    ///
    /// - throws: ``HistoryError/notTracked(path:table:)``, ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``.
    public static func narrow(for table: String, in db: Database) throws {
        try db.atomically {
            var tracked = try recorded(table, db)
            let wasIntact = tracked.isIntact
            tracked.recording = .rows
            try tracked.putTriggers(db, wasIntact: wasIntact)
            // The bits are positions of columns, which may move now (rule H6).
            try db.execute(
                sql: "UPDATE main.roundtable_history SET columns = NULL WHERE table_id = ? AND columns IS NOT NULL",
                arguments: [tracked.id]
            )
        }
    }

    /// Stops recording the changes of a table, in the transaction of `db`, for migrations. Does nothing if they are not recorded.
    ///
    /// - throws: ``HistoryError/newerFormat(path:format:)``, `DatabaseError`.
    public static func disable(for table: String, in db: Database) throws {
        try db.atomically {
            guard try HistoryTables.exist(db) else { return }
            try HistoryState.checkFormat(db)
            guard var tracked = try Self.tracked(table, db), tracked.state != .disabled else { return }
            try tracked.dropTriggers(db)
            tracked.state = .disabled
            try tracked.putGap(db)
            try tracked.update(db)
        }
    }

    private static func recorded(_ table: String, _ db: Database) throws -> TrackedTable {
        guard try HistoryTables.exist(db) else { throw HistoryError.notEnabled(path: db.filePath) }
        try HistoryState.checkFormat(db)
        guard let tracked = try Self.tracked(table, db), tracked.state == .recording else {
            throw HistoryError.notTracked(path: db.filePath, table: table)
        }
        return tracked
    }

    /// Finds the row of a table. One that records is preferred to one of the same name that no longer does.
    private static func tracked(_ table: String, _ db: Database) throws -> TrackedTable? {
        let name = table.lowercased()
        let found = try TrackedTable.fetchAll(db).filter { $0.name.lowercased() == name }
        return found.first { $0.state == .recording && !$0.triggers.isEmpty }
            ?? found.first { $0.state != .disabled } ?? found.last
    }
}

extension TableShape {
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)``.
    init(toRecord table: String, _ db: Database) throws {
        do {
            try self.init(db, table: table)
        } catch let error as UnsuitableTable {
            throw HistoryError.cannotTrack(path: db.filePath, table: error.table, reason: error.reason)
        }
    }
}
