import Dispatch
import Foundation
import Synchronization

/// What whoever started a process of the demo tells it on its standard input, a line each. The process ends when that does: when whoever started
/// it is gone.
final class PeerCues: Sendable {
    private let lastEntry = Mutex<Int64>(0)
    private let hasEnded = DispatchSemaphore(value: 0)

    /// `open`.
    ///
    /// - returns: false when there is nobody any more.
    func waitForOpen() -> Bool { readLine() == "open" }

    /// `go SECONDS`.
    ///
    /// - returns: for how long to work; nil when there is nobody any more.
    func waitForGo() -> Double? {
        guard let words = readLine()?.split(separator: " "), words.count == 2, words[0] == "go" else { return nil }
        Thread.detachNewThread { [self] in
            while let words = readLine()?.split(separator: " ") {
                guard words.count == 2, words[0] == "end", let entry = Int64(words[1]) else { continue }
                lastEntry.withLock { $0 = entry }
                hasEnded.signal()
            }
            exit(1)
        }
        return Double(words[1])
    }

    /// `end ENTRY`, when all have done their work. Once.
    ///
    /// - returns: the last entry that there is.
    func waitForEnd() -> Int64 {
        hasEnded.wait()
        return lastEntry.withLock { $0 }
    }
}
