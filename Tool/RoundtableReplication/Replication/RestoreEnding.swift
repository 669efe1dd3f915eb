import ArgumentParser
import Foundation
import RoundtableKernel
import RoundtableToolSupport
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What a signal such as that of Ctrl-C does at each step of a restore.
final class RestoreEnding: Sendable {
    private enum Step {
        /// The thread that restores looks at the signal soon.
        case waiting
        /// Litestream runs, and is killed.
        case running(ProgramRun)
        /// SQLite reads the restored database, which may take long: the process ends at once, after removing the folder.
        case checking(StagingFolder)
        /// Files are being moved, which takes a moment: the signal is too late.
        case placing
    }

    private struct State {
        var step = Step.waiting
        var signal: Int32?
    }

    private let state = Mutex(State())
    /// Clears the line of the progress, before the process ends.
    private let clear: @Sendable () -> Void

    /// What is true of a restore that was ended.
    private let result: String

    init(result: String = "nothing was restored, and nothing has changed", clear: @escaping @Sendable () -> Void) {
        self.result = result
        self.clear = clear
    }

    func receive(_ signal: Int32) {
        state.withLock { state in
            state.signal = state.signal ?? signal
            switch state.step {
            case .waiting, .placing: break
            case .running(let run): run.signal(SIGKILL)
            case .checking(let folder):
                folder.remove()
                clear()
                Terminal.complain(text(signal))
                // Not `exit`, whose handlers would run beside the thread that reads.
                _exit(128 + signal)
            }
        }
    }

    /// - throws: `ToolError` when a signal was received.
    func running(_ run: ProgramRun) throws { try enter(.running(run)) }
    func waiting() throws { try enter(.waiting) }
    func checking(_ folder: StagingFolder) throws { try enter(.checking(folder)) }
    func placing() throws { try enter(.placing) }

    private func enter(_ step: Step) throws {
        let signal = state.withLock { state in
            state.step = state.signal == nil ? step : .waiting
            return state.signal
        }
        guard let signal else { return }
        clear()
        throw ToolError(text(signal), exitCode: 128 + signal)
    }

    private func text(_ signal: Int32) -> String { "ended by signal \(signal): \(result)." }
}
