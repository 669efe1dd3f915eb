import Dispatch

/// Resumes the tasks to which a pool has granted a connection or a barrier, on a thread that no code of the program can block.
///
/// A granted task needs a thread to begin, and others wait until it has ended. The threads of the task's own executor may all be blocked by
/// accesses that wait for that connection: then neither the task nor these accesses would ever continue. Dispatch starts a thread for a
/// serial queue, however many of its other threads are blocked, up to a few hundred.
///
/// A task that opens a connection may wait for a lock, and runs the program's `prepareDatabase`. So each has a queue of its own, and holds up
/// no other one. Accesses do not run here. They run on the queues of connections, which are serial queues, too.
final class LenderExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // Its quality of service is that of the connections' queues, unless a configuration says otherwise.
        DispatchQueue(label: "roundtable.lender", qos: .userInitiated).async {
            job.runSynchronously(on: self.asUnownedTaskExecutor())
        }
    }
}
