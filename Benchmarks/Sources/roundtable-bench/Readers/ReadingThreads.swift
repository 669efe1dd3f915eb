import Foundation
import Synchronization

extension ParticipantTask {
    /// Reads one row by its key, again and again, with several threads at the same time.
    ///
    /// - parameter contestants: either one that all threads share, or one for each.
    func read(_ contestants: [any Contestant], _ schedule: Schedule) -> ParticipantResult {
        let results = Mutex<[ParticipantResult]>([])
        let group = DispatchGroup()
        for number in 0..<readingThreads {
            // Shared are only those that are made for it: the pools.
            nonisolated(unsafe) let contestant = contestants[number % contestants.count]
            group.enter()
            Thread.detachNewThread {
                let result = readInOneThread(contestant, thread: number, schedule)
                results.withLock { $0.append(result) }
                group.leave()
            }
        }
        group.wait()
        return results.withLock { results in
            results.reduce(into: ParticipantResult()) { sum, result in
                sum.reads += result.reads
                sum.errors += result.errors
                sum.firstError = sum.firstError ?? result.firstError
                sum.times.add(result.times)
            }
        }
    }

    private func readInOneThread(_ contestant: any Contestant, thread: Int, _ schedule: Schedule) -> ParticipantResult {
        let rows = Int64(Readers.rows)
        var result = ParticipantResult()
        // Each thread begins elsewhere.
        var id = Int64(author * 37 + thread * 101) % rows
        Clock.sleep(until: schedule.start)
        var last = Clock.now
        while last < schedule.end {
            id = id % rows + 1
            do {
                guard try contestant.select(id: id) == id else { throw WrongResult(side: self.contestant) }
            } catch {
                result.fail(error)
            }
            let now = Clock.now
            if now <= schedule.end { result.reads += 1 }
            result.times.record(now - last)
            last = now
        }
        return result
    }
}
