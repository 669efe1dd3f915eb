import Foundation
import RoundtableCore
import RoundtableDiagnostics
import RoundtableKernel

extension DatabaseDiagnosis {
    /// Reports other databases of SQLite in the App Group's container, for whose readers iOS kills a process, too.
    ///
    /// The headers of files are read, so this is for a process that has none of these files open, in whatever library (rule G5).
    mutating func findOtherDatabases() {
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

extension GroupContainer {
    /// The databases of SQLite for whose readers iOS kills, too: in rollback-journal mode, or with an encrypted header; and the files that
    /// cannot be read.
    ///
    /// Headers are read, so this is for a process that has none of these files open, in whatever library (rule G5).
    fileprivate func examineHeaders() -> (risky: [String], unreadable: [String]) {
        let all = Set(files)
        var (risky, unreadable): ([String], [String]) = ([], [])
        for file in files {
            do {
                // Opening does not block, even if another program has put a pipe there.
                let limit = DatabaseHeader.size - 1
                let bytes = try System.contents(ofFileAt: file, limit: limit, followingLinks: false)
                guard let bytes, bytes.count > limit else { continue }
                let hasCompanion = ["-wal", "-shm", "-journal"].contains { all.contains(file + $0) }
                if DatabaseHeader(bytes).map({ !$0.isWAL }) ?? hasCompanion { risky.append(file) }
            } catch {
                if (error as? SystemError)?.isMissingFile != true { unreadable.append(file) }
            }
        }
        return (risky, unreadable)
    }
}
