import GRDB
import RoundtableCore
import RoundtableKernel
import RoundtableTables

/// Which derived tables must be created again, and how.
extension DerivedTableRegistry {
    /// Returns the derived tables whose triggers are missing or wrong (rule E7). Only derived tables that are stored as declared here are
    /// inspected.
    func defects(_ db: Database) throws -> [DescribedDerivedTable] {
        let stored = try StoredDerivedTable.fetchAll(db)
        let triggers = try Self.triggers(db)
        return derivedTables.filter { one in
            guard let known = stored.first(where: { $0.name == one.name }), known.isOf(one),
                known.generation <= Projection.generation
            else { return false }
            guard let shape = try? TableShape(db, table: one.definition.baseTable) else {
                return known.state != .missing
            }
            let needed = Projection(one, shape).triggers
            let base = shape.name.lowercased()
            let own = triggers.filter {
                needed[$0.name] != nil || $0.belongs(to: one.name) && $0.table.lowercased() == base
            }
            if Dictionary(own.map { ($0.name, $0.sql) }, uniquingKeysWith: { $1 }) != needed { return true }
            let following = own.filter { $0.table.lowercased() == base && OtherTrigger($0.sql).isAfter }
            let oldest = following.map(\.rowID).min() ?? 0
            return triggers.contains { trigger in
                trigger.rowID > oldest && trigger.table.lowercased() == base
                    && !trigger.name.lowercased().hasPrefix(TableShape.reservedPrefix)
                    && OtherTrigger(trigger.sql).isAfter
            }
        }
    }

    /// Creates a derived table again. If that fails, its state becomes `missing`. Must be called inside a write transaction.
    ///
    /// - returns: whether it could be created.
    @discardableResult
    func remake(_ one: DescribedDerivedTable, until deadline: Nanoseconds?, _ db: Database) throws -> Bool {
        do {
            try db.atomically { try Self.make(one, until: deadline, db) }
            return true
        } catch is DerivedTableError {
            guard var stored = try StoredDerivedTable.fetch(db, one.name), stored.state != .missing else {
                return false
            }
            try Self.dropTriggers(one.name, db)
            stored.state = .missing
            try stored.store(db)
            return false
        }
    }
}
