import Dispatch
import Foundation
import RoundtableKernel
import Synchronization

/// The commands that a process of the demo receives on its standard input, one on each line. The process ends when its standard input
/// ends, because its parent has ended then.
final class PeerCues: Sendable {
    private let lastEntry = Mutex<Int64>(0)
    private let hasEnded = DispatchSemaphore(value: 0)

    /// Waits for the line `open`.
    ///
    /// - returns: false when the parent has ended.
    func waitForOpen() -> Bool { readLine() == "open" }

    /// Waits for the line `go SECONDS`.
    ///
    /// - returns: how long to work, in seconds; nil when the parent has ended.
    func waitForGo() -> Double? {
        guard let words = readLine()?.split(separator: " "), words.count == 2, words[0] == "go" else { return nil }
        DetachedThread.startOrQueue { [self] in
            while let words = readLine()?.split(separator: " ") {
                guard words.count == 2, words[0] == "end", let entry = Int64(words[1]) else { continue }
                lastEntry.withLock { $0 = entry }
                hasEnded.signal()
            }
            exit(1)
        }
        return Double(words[1])
    }

    /// Waits for the line `end ENTRY`, which comes when all processes have done their work. Call it once.
    ///
    /// - returns: the last entry of the journal.
    func waitForEnd() -> Int64 {
        hasEnded.wait()
        return lastEntry.withLock { $0 }
    }
}
