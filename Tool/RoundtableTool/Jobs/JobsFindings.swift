import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableJobs
import RoundtableToolSupport

/// What is wrong with the jobs of a database.
struct JobsFindings {
    /// The time in which a worker claims a ready job unless other jobs are before it, in seconds. A worker that runs needs less than a second.
    static let patience: TimeInterval = 60

    let jobs: JobsStatus
    var now = Date()

    func add(to diagnosis: inout DatabaseDiagnosis) {
        for queue in jobs.queues {
            addLost(of: queue, to: &diagnosis)
            addWaiting(of: queue, to: &diagnosis)
            addDead(of: queue, to: &diagnosis)
        }
    }

    private func addDead(of queue: JobQueueStatus, to diagnosis: inout DatabaseDiagnosis) {
        guard queue.dead > 0 else { return }
        let one = queue.dead == 1
        let newest = queue.newestDeath.map { death in
            let age = max(0, now.timeIntervalSince(death.date)).rough
            let error = death.error.visibleLine.trimmingCharacters(in: .whitespaces)
            return " The \(one ? "" : "newest ")error, \(age) ago: \(error.isEmpty ? "none was stored" : error)"
        }
        let list = "SELECT id, queue, error FROM roundtable_job WHERE state = 'dead' ORDER BY finished DESC LIMIT 20"
        diagnosis.find(
            .deadJobs,
            .warning,
            "\(name(queue.dead, of: queue)) \(one ? "is" : "are") dead, and no worker attempts \(one ? "it" : "them") again.\(newest ?? "")",
            advice: """
                Correct the cause, then let \(one ? "it" : "them") be attempted again (JobQueue.retry), or remove \(one ? "it" : "them") \
                (JobQueue.prune, with the state dead). To list dead jobs: roundtable sql \(diagnosis.path.shellQuotedPath) "\(list)"
                """
        )
    }

    private func addWaiting(of queue: JobQueueStatus, to diagnosis: inout DatabaseDiagnosis) {
        guard let wait = queue.readySeconds, wait > Self.patience, !queue.isAttended else { return }
        let what =
            queue.ready == 1
            ? "\(name(1, of: queue)) has been due for \(wait.rough)"
            : "\(name(queue.ready, of: queue)) are due, the oldest for \(wait.rough)"
        if queue.idleWorkers.isEmpty {
            diagnosis.find(
                .jobsWait,
                .warning,
                "\(what), and no worker of this queue lives.",
                advice: "Start the program that runs the queue (JobQueue.run)."
            )
        } else {
            diagnosis.find(
                .jobsWait,
                .warning,
                "\(what), although a worker of this queue has no job.",
                by: queue.idleWorkers,
                advice: """
                    Look at the log of the program: its database may be suspended, or it cannot write. If JobQueue.run has ended in it, start it \
                    again.
                    """
            )
        }
    }

    private func addLost(of queue: JobQueueStatus, to diagnosis: inout DatabaseDiagnosis) {
        guard queue.lost > 0 else { return }
        let one = queue.lost == 1
        let reasons = Set(queue.lostWorkers.map(\.reason)).sorted()
        let more = reasons.count > 3 ? "; and \(reasons.count - 3) more" : ""
        let isServed = queue.workers > 0
        diagnosis.find(
            .lostJobs,
            isServed ? .notice : .warning,
            """
            \(name(queue.lost, of: queue)) \(one ? "is" : "are") running without a worker: \(reasons.prefix(3).joined(separator: "; "))\(more).
            """,
            by: queue.lostWorkers.compactMap(\.process),
            advice: isServed
                ? "Nothing: a worker with a free handler takes \(one ? "it" : "them") back. This counts as a failed attempt."
                : """
                Start the program that runs the queue (JobQueue.run): it takes \(one ? "it" : "them") back, and this counts as a failed attempt.
                """
        )
    }

    /// The jobs as the beginning of a sentence.
    private func name(_ count: Int, of queue: JobQueueStatus) -> String {
        "\(count.of("job")) of the queue '\(queue.name)'"
    }
}
