import GRDB

extension Database {
    /// Notifies this connection's observers that these tables have changed. Call it in a transaction.
    ///
    /// - parameter region: the region of a table, which is compiled if it is not known.
    func notifyChanges(
        in tables: DatabaseChange.Tables,
        region: (String) throws -> any DatabaseRegionConvertible = { Table($0) }
    ) throws {
        switch tables {
        case .fullDatabase:
            do {
                try notifyChanges(in: DatabaseRegion.fullDatabase)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                // One of the tables cannot be read, for example a virtual table without its module.
                let names = try String.fetchAll(self, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
                try notifyChanges(in: .some(Set(names)))
            }
        case .some(let names):
            for name in names {
                do {
                    try notifyChanges(in: region(name))
                } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                    // The table does not exist any more, or it cannot be read. It cannot be observed either.
                }
            }
        }
    }
}
