import RoundtableCore
import RoundtableKernel

extension Doctor {
    /// Reports the files of other libraries whose locks iOS kills a process for.
    mutating func examineOtherLocks(_ container: GroupContainer) {
        let libraries = container.libraries
        for library in LockingLibrary.allCases {
            guard let files = libraries[library], let first = files.first else { continue }
            let advice = library.advice
            find(
                .otherLocks,
                .notice,
                """
                \(files.count.of("file")) of \(library.rawValue) \(files.count == 1 ? "is" : "are") in the App Group's container, to judge by the \
                name. \(library.rawValue) \(advice.lasts), and iOS kills a process that it suspends with such a lock.
                """,
                at: first,
                advice: "\(advice.next)."
            )
        }
        if container.isCut {
            diagnosis.unknowns.append(
                "Locks of other libraries: only \(GroupContainer.most.grouped) files of \(container.path) were looked at."
            )
        }
        if let first = container.unreadable.first {
            diagnosis.unknowns.append(
                "Locks of other libraries: \(container.unreadable.count.of("folder")) cannot be read, such as \(first)."
            )
        }
    }
}

extension DatabaseDiagnosis {
    /// Reports other databases of SQLite in the App Group's container, for whose readers iOS kills a process, too.
    ///
    /// The headers of files are read, so this is for a process that has none of these files open, in whatever library (rule G5).
    package mutating func findOtherDatabases() {
        guard let (databases, unreadable) = GroupContainer(ofDatabaseAt: path)?.examineHeaders() else { return }
        if let file = unreadable.first {
            unknowns.append("Other databases: \(unreadable.count.of("file")) cannot be read, such as \(file).")
        }
        guard let first = databases.first else { return }
        find(
            .otherLocks,
            .notice,
            """
            \(databases.count.of("other database")) of SQLite in the App Group's container \(databases.count == 1 ? "is" : "are") not in WAL mode, \
            or \(databases.count == 1 ? "has" : "have") an encrypted header. iOS kills a process that it suspends while it only reads such a database.
            """,
            at: first,
            advice: """
                Keep it in the app's own container, or share it with SharedDatabase, which sets WAL mode. If it belongs to another library, access it \
                only while the process holds an assertion.
                """
        )
    }
}
