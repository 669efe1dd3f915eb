import RoundtableCore

extension Doctor {
    /// Finds extensions that are unfinished or broken.
    mutating func examineExtensions(_ status: DatabaseStatus) {
        let writers = status.participants.filter { $0.role == .readWrite && $0.liveness != .dead }
        let parties = writers.map(\.party)
        for one in status.extensions?.extensions ?? [] {
            let what = "The extension '\(one.name)' of the table '\(one.baseTable)'"
            let open = "open the database for writing with a program that declares version \(one.version) of it"
            let stuck =
                "If it stops again there, a row cannot be derived from: the events of the database (Options.onEvent) name it."
            switch one.state {
            case .ready: break
            case .building:
                find(
                    .unfinishedExtension,
                    writers.isEmpty ? .warning : .notice,
                    "\(what) is half built, \(one.done.grouped) of about \(one.total.grouped) rows\(writers.isEmpty ? ", and no process continues it." : ".")",
                    by: parties,
                    next: writers.isEmpty
                        ? "To have it finished, \(open). \(stuck)"
                        : "Wait. If the number does not grow, \(open). \(stuck)"
                )
            case .triggersMissing:
                find(
                    .brokenExtension,
                    .warning,
                    "\(what) does not follow its table: its triggers were dropped, perhaps with the table.",
                    by: parties,
                    next:
                        "To have it rebuilt, \(open). A running program of this kind also rebuilds it before its next write."
                )
            case .baseTableMissing:
                find(
                    .brokenExtension,
                    .warning,
                    "\(what) cannot be derived: the table was dropped, or has lost a column.",
                    next:
                        "Change or drop the extension in the programs that declare it, and raise the revision of their set."
                )
            }
        }
    }
}
