import RoundtableDiagnostics
import RoundtableJobs

/// Reads the jobs of a database that is inspected.
final class JobsReading {
    /// nil when the database has no tables of jobs, or they cannot be read.
    private(set) var status: JobsStatus?

    /// What the inspection reads, too.
    var further: DatabaseStatus.FurtherReading {
        DatabaseStatus.FurtherReading(of: "The jobs") { [self] db in
            status = nil
            status = try JobsStatus(db, at: .now)
        }
    }

    /// What the numbers may lack; empty when they lack nothing.
    var unknowns: [String] {
        guard let columns = status?.unknownColumns, !columns.isEmpty else { return [] }
        let names = columns.map { "'\($0)'" }.joined(separator: ", ")
        return [
            """
            Whether the numbers of jobs say all: a newer version of Roundtable, or another program, has added \(names). Look with the \
            'roundtable' of the version that the programs use.
            """
        ]
    }
}
