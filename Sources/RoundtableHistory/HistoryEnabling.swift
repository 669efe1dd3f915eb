import GRDB
import RoundtableCore
import RoundtableTables

/// Implements the functions of `SharedDatabase` that take a `Database`. Each runs in a savepoint, so that an error leaves nothing
/// half done.
enum HistoryEnabling {
    static func enable(
        _ db: Database,
        table: String,
        recording: HistoryRecording,
        keeping: OldValuePolicy
    ) throws {
        try savepoint(db) {
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
                try find(db, table: shape.name)
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

    static func narrow(_ db: Database, table: String) throws {
        try savepoint(db) {
            var tracked = try required(db, table: table)
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

    static func stopKeeping(_ db: Database, table: String, columns: Set<String>?) throws {
        try savepoint(db) {
            var tracked = try required(db, table: table)
            let wasIntact = tracked.isIntact
            let names = columns.map { Set($0.map { $0.lowercased() }) }
            let remaining = tracked.kept.map(\.name).filter { names?.contains($0.lowercased()) == false }
            tracked.kept.restrict(to: Set(remaining))
            try tracked.putTriggers(db, wasIntact: wasIntact)
        }
    }

    static func disable(_ db: Database, table: String) throws {
        try savepoint(db) {
            guard try HistoryTables.exist(db) else { return }
            try HistoryState.checkFormat(db)
            guard var tracked = try find(db, table: table), tracked.state != .disabled else { return }
            try tracked.dropTriggers(db)
            tracked.state = .disabled
            try tracked.putGap(db)
            try tracked.update(db)
        }
    }

    private static func required(_ db: Database, table: String) throws -> TrackedTable {
        guard try HistoryTables.exist(db) else { throw HistoryError.notEnabled(path: db.filePath) }
        try HistoryState.checkFormat(db)
        guard let tracked = try find(db, table: table), tracked.state == .recording else {
            throw HistoryError.notTracked(path: db.filePath, table: table)
        }
        return tracked
    }

    /// Finds the row of a table. One that records is preferred to one of the same name that no longer does.
    private static func find(_ db: Database, table: String) throws -> TrackedTable? {
        let name = table.lowercased()
        let found = try TrackedTable.fetchAll(db).filter { $0.name.lowercased() == name }
        return found.first { $0.state == .recording && !$0.triggers.isEmpty }
            ?? found.first { $0.state != .disabled } ?? found.last
    }

    private static func savepoint(_ db: Database, _ body: () throws -> Void) throws {
        try db.inSavepoint {
            try body()
            return .commit
        }
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
