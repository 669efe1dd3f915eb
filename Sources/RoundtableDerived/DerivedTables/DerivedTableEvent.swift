import GRDB
import RoundtableCore

/// An event of a derived table.
public enum DerivedTableEvent: Sendable {
    /// More rows were derived. A consumer that is slower than the building receives the latest of each derived table.
    case progress(DerivedTableProgress)
    /// The triggers of these derived tables were missing or wrong. A migration or another program has recreated their table, or has added an
    /// AFTER trigger to it. The derived tables are being built again. Until that is done, using them fails.
    case rebuilding([String])
    /// Building has failed. If the cause is temporary, such as a lock or a suspension, building is retried in the background, and this
    /// event is reported once. Otherwise it is retried when a derived table has to be built again, or when a program opens the database for
    /// writing. ``DerivedTableError/notDerived(path:name:table:after:upTo:reason:)`` names the rows that cannot be derived. Other derived tables
    /// are still built.
    case failed(any Error)
}

extension DerivedTableEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .progress: .info
        case .rebuilding: .notice
        case .failed: .error
        }
    }

    package var text: String {
        switch self {
        case .progress(let progress):
            "the derived table '\(progress.name)' is derived from \(progress.done) of \(progress.total.of("row"))"
        case .rebuilding(let names):
            """
            built again, because another program has changed their triggers or tables: \(names.map { "'\($0)'" }.joined(separator: ", ")). Until \
            that is done, using them fails
            """
        case .failed(let error):
            """
            building derived tables has failed: \(LoggedText.of(error)). A cause that passes is tried again; otherwise correct it, and open the \
            database for writing
            """
        }
    }

    package var replacementKey: String? {
        if case .progress(let progress) = self { return "progress of \(progress.name)" }
        return nil
    }
}

extension DerivedTableError: LoggedError {
    package var loggedText: String {
        guard case .notDerived(let path, let name, let table, _, _, _) = self else { return description }
        // The keys of the rows and SQLite's reason are the user's.
        return
            "\(path): the derived table '\(name)' cannot be derived from a row of '\(table)', which the event's error names"
    }
}
