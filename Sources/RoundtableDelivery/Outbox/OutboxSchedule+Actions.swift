import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

// What the schedule asks for, and what is reported to it.

extension OutboxSchedule {
    /// What the owner does next. An error that none of the named methods reports is reported by `failed`.
    enum Action {
        /// Remove what dead processes have left; then call `cleaningFailed` if that fails.
        case clean
        /// Detect owners of other databases and folders; then call `foundOwners`.
        case lookForOwners
        /// List the commands, and read the dead letters to retry; then call `listed`.
        case list
        /// Read the file; then call `read`.
        case read(CommandFileName)
        /// Move the damaged file away; then call `moved`.
        case moveAway(CommandFileName, reason: String)
        /// Decide about these commands in one transaction, as ``OutboxBatch`` says; then call `decided` or `batchFailed`.
        case decide([PendingCommand])
        /// Withdraw the answers about these dead letters, because they no longer hold.
        case withdrawAnswers([UUID])
        /// Answer the questions about these commands, or all questions; then call `answeringFailed` if the file system fails.
        case answer(Set<UUID>?)
        /// Sync the WAL and remove the files in ``decidedFiles``; then call `removed` or `removedAll`, and `removalFailed` if that fails.
        case removeFiles
        /// Forget the ids of commands that were decided long ago; then call `forgot`.
        case forget
        /// End the run, and throw the error if there is one.
        case stop((any Error)?)
    }

    // MARK: Results

    /// The dead letters that are to be retried.
    struct RetriableLetters {
        /// The first of those that are due.
        var due: [DeadLetter] = []
        var areAll = true
        /// When the first of the others is due.
        var nextTry: Date?
    }

    /// What was found where a file was listed.
    enum Reading {
        case command(CommandFile)
        case missing
        case newer(path: String)
        /// - parameter age: how long ago a file that is cut off was changed, in seconds; nil for other damage.
        case damaged(reason: String, age: TimeInterval?)
        case failed(any Error)
    }

    /// What became of a damaged file.
    enum Move {
        case moved(to: String)
        /// The file no longer exists, usually because another owner of the outbox has already moved it.
        case gone
        case failed(path: String, any Error)
    }
}
