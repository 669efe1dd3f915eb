#if os(Linux)
    import Foundation
    import GRDB

    /// Compares what was acknowledged with what is there.
    struct LedgerAudit {
        let task: SuspensionTask
        /// Up to here, all was counted.
        private var counted = 0

        init(_ task: SuspensionTask) { self.task = task }

        /// Beside the program, which has opened the database by then, and recovered it after a death.
        mutating func count(_ findings: inout SuspensionFindings) throws {
            let acknowledged = SuspensionJournal.acknowledged(task)
            guard acknowledged > counted else { return }
            var configuration = Configuration()
            configuration.readonly = true
            configuration.busyMode = .timeout(10)
            let queue = try DatabaseQueue(path: task.databasePath, configuration: configuration)
            let range = [(counted + 1) * Ledger.stride, (acknowledged + 1) * Ledger.stride]
            let (whole, torn): (Int, Int) = try queue.read { db in
                let sql = """
                    SELECT COUNT(*) FILTER (WHERE n = \(task.rows)), COUNT(*) FILTER (WHERE n <> \(task.rows))
                    FROM (SELECT COUNT(*) AS n FROM ledger WHERE id >= ? AND id < ? GROUP BY id / \(Ledger.stride))
                    """
                let row = try Row.fetchOne(db, sql: sql, arguments: StatementArguments(range))!
                return (row[0], row[1])
            }
            try queue.close()
            findings.acknowledged += acknowledged - counted
            findings.lost += acknowledged - counted - whole
            findings.torn += torn
            counted = acknowledged
        }

        /// When nobody has the databases open any more.
        mutating func close(_ findings: inout SuspensionFindings) throws {
            try count(&findings)
            let names = try FileManager.default.contentsOfDirectory(atPath: task.folder)
            for name in names where name.hasSuffix(".sqlite") {
                let queue = try DatabaseQueue(path: task.folder + "/" + name)
                let answer = try queue.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") }
                if answer != ["ok"] { findings.integrityErrors.append("\(name): \(answer.joined(separator: "; "))") }
                try queue.close()
            }
        }
    }
#endif
