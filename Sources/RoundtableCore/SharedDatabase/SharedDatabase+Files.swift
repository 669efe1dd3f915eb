import Dispatch
import GRDB
import RoundtableKernel

extension SharedDatabase {
    // Rule W12d: A loss is final, and reported once. Every later access fails with the same error; observations, workers, publishers and
    // the owner of the outbox end. A participant that finds a loss wakes all sleepers at the news word, twice, 20 ms apart. It makes no
    // checkpoint any more, also not when it closes, and keeps its slot until then. SQLite neither truncates nor removes a `-wal` when a
    // connection of a participant closes, nor when one closes that was attached to a raw handle or loads the extension.

    /// Reports a file that is lost, and shows other participants which files this one has open (rules W12d, P15).
    func followFiles() {
        // The writer's connection was opened before the database had a WAL. A loss is found by the first access.
        _ = writer.queue.inDatabase(files.record)
        files.follow { [weak seat] in seat?.show($0) }
        // Later, on another thread: whoever finds the loss may hold locks, or be on a queue that the companions wait for.
        files.onLoss { [weak self] _ in DispatchQueue.global().async { [weak self] in self?.loseFile() } }
    }

    /// The identity of the database file, which is in its place now: what is done to files because of what this database says is done for
    /// the database that everybody sees. This opens no file (rule G5).
    ///
    /// - throws: ``SharedDatabaseError/fileLost(path:_:)``.
    package func identityOfFile() throws -> FileIdentity? {
        try files.requireInPlace()
        return files.databaseIdentity
    }

    /// Ends what would otherwise wait for changes of a file that nobody else sees.
    private func loseFile() {
        guard isInOwnProcess, let failure = files.failure, case .fileLost(let path, let file) = failure else { return }
        reporter.report(CoordinationEvent.fileLost(path: path, file))
        observatory.fail(failure)
        for companion in companions { companion.databaseLostFile() }
        wakeListeners()
        // A look of theirs that began before the loss is not valid any more then.
        DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(2 * DatabaseFiles.validity))) { [self] in
            wakeListeners()
        }
    }

    /// Lets all participants that listen look whether their files are in place (rule W12b).
    private func wakeListeners() { seat.participant?.block.interruptNews() }
}
