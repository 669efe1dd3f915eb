import Roundtable
import RoundtableJobs
import RoundtableToolSupport

/// The queues of jobs as a table for people.
struct JobsText {
    let jobs: JobsStatus

    var lines: [StyledText] {
        if jobs.queues.isEmpty { return ["  No queue has a job."] }
        var table = TextTable(
            columns: [
                ("queue", .left), ("ready", .right), ("due for", .right), ("scheduled", .right), ("running", .right),
                ("lost", .right), ("dead", .right), ("workers", .right),
            ],
            indentation: "  "
        )
        table.rows = jobs.queues.map { queue in
            [
                queue.name, queue.ready.grouped, queue.readySeconds.map(\.rough) ?? "–", queue.scheduled.grouped,
                queue.running.grouped, queue.lost.grouped, queue.dead.grouped, queue.workers.grouped,
            ]
        }
        return table.styledLines()
    }
}
