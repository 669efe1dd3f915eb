import RoundtableCore

extension DatabaseDiagnosis {
    /// Finds derived tables that are unfinished or broken.
    mutating func examineDerivedTables(_ status: DatabaseStatus) {
        let writers = status.participants.filter { $0.role == .readWrite && $0.liveness != .dead }
        let parties = writers.map(\.party)
        for one in status.derivedTables?.tables ?? [] {
            let what = "The derived table '\(one.name)' of the table '\(one.baseTable)'"
            let open = "open the database for writing with a program that declares version \(one.version) of it"
            let stuck =
                "If it stops again there, a row cannot be derived from: the events of the database (Options.onEvent) name it."
            switch one.state {
            case .ready: break
            case .building:
                find(
                    .unfinishedDerivedTable,
                    writers.isEmpty ? .warning : .notice,
                    "\(what) is half built, \(one.done.grouped) of about \(one.total.grouped) rows\(writers.isEmpty ? ", and no process continues it." : ".")",
                    by: parties,
                    advice: writers.isEmpty
                        ? "To have it finished, \(open). \(stuck)"
                        : "Wait. If the number does not grow, \(open). \(stuck)"
                )
            case .triggersMissing:
                find(
                    .brokenDerivedTable,
                    .warning,
                    "\(what) does not follow its table: its triggers were dropped, perhaps with the table.",
                    by: parties,
                    advice:
                        "To have it rebuilt, \(open). A running program of this kind also rebuilds it before its next write."
                )
            case .baseTableMissing:
                find(
                    .brokenDerivedTable,
                    .warning,
                    "\(what) cannot be derived: the table was dropped, or has lost a column.",
                    advice:
                        "Change or drop the derived table in the programs that declare it, and raise the revision of their set."
                )
            }
        }
    }
}
