import Dispatch
import RoundtableKernel

extension SharedDatabase {
    /// Notices within a second, also without an access, that a file was lost, and shows other participants which files this one has open
    /// (rules W12c, P15).
    func followFiles() {
        // The writer's connection was opened before the database had a WAL. A loss is found by the first access.
        try? writer.queue.inDatabase(files.note)
        files.follow { [weak seat] in seat?.show($0) }
        // Later, on another thread: whoever finds the loss may hold locks, or be on a queue that the companions wait for.
        files.onLoss { [weak self] _ in DispatchQueue.global().async { [weak self] in self?.loseFile() } }
        files.lookRegularly()
    }

    /// Ends what would otherwise wait for changes of a file that nobody else sees.
    private func loseFile() {
        guard isInOwnProcess, let failure = files.failure, case .fileLost(let path, let file) = failure else { return }
        reporter.report(CoordinationEvent.fileLost(path: path, file))
        observatory.fail(failure)
        for companion in companions { companion.databaseLostFile() }
    }
}

extension DatabaseFiles {
    /// Looks every half second, as long as this object lives.
    fileprivate func lookRegularly() {
        let timer = DispatchSource.makeTimerSource(queue: .global(qos: .utility))
        let interval = DispatchTimeInterval.milliseconds(500)
        timer.schedule(deadline: .now() + interval, repeating: interval, leeway: .milliseconds(200))
        timer.setEventHandler { [weak self, timer] in
            guard let self, look() == nil else { return timer.cancel() }
        }
        timer.resume()
    }
}
