#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableTestKit

    /// What a process before the police tells of itself. It outlives `kill -9`: each entry and each number is with the system
    /// when the call returns. Outside of SQLite, whose word is not taken for what it has committed.
    final class SuspensionJournal: Sendable {
        struct Entry: Codable {
            enum Kind: String, Codable {
                /// A write failed. `isInside`: its transaction had begun.
                case error
                /// A write failed, and its rows are there.
                case committedThoughFailed
                /// The transaction that ran when the notice came was committed.
                case finished
                /// … was not.
                case rolledBack
                /// What our gate answered of one database.
                case gate
                /// What an activity did, by its name.
                case activity
            }

            var kind: Kind
            /// On the clock that all processes share, in ns.
            var time = Clock.now
            var sequence: Int?
            var code: Int?
            var isInside: Bool?
            var text: String?
            /// From the notice.
            var milliseconds: Double?
            /// How often, if not once.
            var count: Int?

            init(_ kind: Kind) { self.kind = kind }
        }

        /// What the ``StallMeter`` has seen since the last notice, in ns.
        struct Ticks {
            var noticed: Nanoseconds
            var last: Nanoseconds
            var longestGap: Nanoseconds
            /// The writing thread, on a processor and waiting for one.
            var running: Nanoseconds
            var waiting: Nanoseconds

            var numbers: [Nanoseconds] { [noticed, last, longestGap, running, waiting] }

            /// In ms: for how long at most a thread that only wanted to look at the clock could not, until the process was stopped.
            func longestGap(until verdict: Verdict) -> Double {
                max(longestGap.milliseconds, verdict.frozen / .milliseconds(1) - (last - noticed).milliseconds)
            }

            /// Whether the machine took a good part of the notice away from the process. Not with a notice of no time.
            func isStalled(_ verdict: Verdict, notice: Duration) -> Bool {
                let notice = notice / .milliseconds(1)
                guard notice > 0 else { return false }
                return longestGap(until: verdict) > notice / 10 || waiting.milliseconds > notice / 2
                    || verdict.stopping / .milliseconds(1) > notice / 10
            }
        }

        private let entries: Int32
        private let counts: Int32

        /// Goes on with what is there.
        init(_ task: SuspensionTask) throws {
            entries = open(task.journalPath, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
            counts = open(task.progressPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
            guard entries >= 0, counts >= 0 else {
                throw SuspensionFailure("cannot write into \(task.folder): \(String(cString: strerror(errno)))")
            }
        }

        deinit {
            close(entries)
            close(counts)
        }

        /// All sequences up to this one are committed.
        func acknowledge(_ sequence: Int) { record(UInt64(sequence), at: 0) }

        /// The database is open, and the first write may begin.
        func recordReady() {
            // Those of the one before.
            record(Ticks(noticed: 0, last: 0, longestGap: 0, running: 0, waiting: 0))
            record(UInt64(getpid()), at: 1)
        }

        func record(_ ticks: Ticks) {
            for (place, number) in ticks.numbers.enumerated() { record(number, at: 2 + place) }
        }

        private func record(_ number: UInt64, at place: Int) {
            var number = number
            pwrite(counts, &number, MemoryLayout<UInt64>.size, place * MemoryLayout<UInt64>.size)
        }

        func append(_ entry: Entry) {
            guard var bytes = try? JSONEncoder().encode(entry) else { return }
            bytes.append(UInt8(ascii: "\n"))
            bytes.withUnsafeBytes { _ = write(entries, $0.baseAddress, $0.count) }
        }

        // MARK: For the one who counts

        static func acknowledged(_ task: SuspensionTask) -> Int { recorded(task, at: 0) }

        static func isReady(_ task: SuspensionTask, pid: Int32) -> Bool { recorded(task, at: 1) == Int(pid) }

        /// Since the last notice.
        static func ticks(_ task: SuspensionTask) -> Ticks {
            let numbers = (2..<7).map { Nanoseconds(recorded(task, at: $0)) }
            return Ticks(
                noticed: numbers[0],
                last: numbers[1],
                longestGap: numbers[2],
                running: numbers[3],
                waiting: numbers[4]
            )
        }

        private static func recorded(_ task: SuspensionTask, at place: Int) -> Int {
            let size = MemoryLayout<UInt64>.size
            guard let data = FileManager.default.contents(atPath: task.progressPath), data.count >= (place + 1) * size
            else { return 0 }
            return Int(data.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: place * size, as: UInt64.self) })
        }

        /// The last line may be cut short by a death.
        static func entries(_ task: SuspensionTask) -> [Entry] {
            let data = FileManager.default.contents(atPath: task.journalPath) ?? Data()
            let decoder = JSONDecoder()
            return data.split(separator: UInt8(ascii: "\n")).compactMap { try? decoder.decode(Entry.self, from: $0) }
        }
    }

    struct SuspensionFailure: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }
#endif
