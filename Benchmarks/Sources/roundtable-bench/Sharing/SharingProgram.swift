#if os(Linux)
    import Foundation
    import Glibc
    import Roundtable
    import RoundtableTestKit
    import Synchronization

    /// Numbers that outlive `kill -9`: each is with the system when the call returns.
    final class SharingCounts: @unchecked Sendable {
        // @unchecked: the descriptor is constant, and each number is written whole.
        enum Count: Int, CaseIterable {
            /// The last command that was acknowledged: all before it were.
            case acknowledged
            case outcomes, reads, writes, values
            /// Of this process, so that its successor knows.
            case ready
            /// What must not be: an error, half a value, another outcome than that a command was applied.
            case problems
        }

        private let descriptor: Int32
        private let path: String

        /// Goes on with what is there.
        init(_ path: String) throws {
            self.path = path
            descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
            guard descriptor >= 0 else {
                throw SuspensionFailure("\(path): \(String(cString: strerror(errno)))")
            }
        }

        deinit { close(descriptor) }

        subscript(_ count: Count) -> Int {
            get {
                var number: Int64 = 0
                pread(descriptor, &number, 8, count.rawValue * 8)
                return Int(number)
            }
            set {
                var number = Int64(newValue)
                pwrite(descriptor, &number, 8, count.rawValue * 8)
            }
        }

        func note(_ problem: String) {
            self[.problems] += 1
            FileHandle.standardError.write(Data("\(problem)\n".utf8))
        }
    }

    /// A program that shares by snapshot files and the outbox alone, and never rests: each way has a thread.
    final class SharingProgram: Sendable {
        struct Task: Codable {
            var place: SharingPlace
            var countsPath: String
        }

        private let place: SharingPlace
        private let counts: SharingCounts
        private let asked = Mutex<[UUID]>([])

        init(_ task: Task) throws {
            place = task.place
            counts = try SharingCounts(task.countsPath)
        }

        func run() throws -> Never {
            endWithParent()
            let outbox = try place.outbox("program")
            let published = place.snapshot()
            let own = place.snapshot("own")
            var n = counts[.acknowledged]
            repeatedly { [self] in if check(try published.read()) { counts[.reads] += 1 } }
            repeatedly { [self] in
                try own.write(RowCount(.random(in: 0...9), size: .random(in: 0...20_000)))
                counts[.writes] += 1
                _ = check(try own.read())
            }
            repeatedly { [self] in
                let id = asked.withLock { $0.isEmpty ? nil : $0.removeFirst() }
                guard let id else {
                    usleep(1000)
                    return
                }
                let outcome = try outbox.outcome(of: id, within: .seconds(60))
                if outcome == .applied { counts[.outcomes] += 1 } else { counts.note("outcome of \(id): \(outcome)") }
            }
            _Concurrency.Task.detached { [self] in
                for await reading in published.values() where check(reading) { counts[.values] += 1 }
            }
            counts[.ready] = Int(getpid())
            while true {
                n += 1
                // The one before may have submitted it, and died before it could count it: the same id again.
                let id = Self.id(n)
                try outbox.submit(AddRow(sender: 1, n: n), id: id)
                counts[.acknowledged] = n
                asked.withLock { if $0.count < 4 { $0.append(id) } }
            }
        }

        private static func id(_ n: Int) -> UUID {
            var bytes = [UInt8](repeating: 0xAB, count: 16)
            withUnsafeBytes(of: UInt64(n).bigEndian) { bytes.replaceSubrange(0..<8, with: $0) }
            return UUID(uuid: bytes.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) })
        }

        private func check(_ reading: SnapshotReading<RowCount>) -> Bool {
            switch reading {
            case .value(let value, _) where value.isWhole: return true
            case .absent: return false
            case let other:
                counts.note("read \(other)")
                return false
            }
        }

        private func repeatedly(_ body: @escaping @Sendable () throws -> Void) {
            Thread.detachNewThread { [counts] in
                while true {
                    do { try body() } catch { counts.note("\(error)") }
                }
            }
        }

        /// Nobody else would end it when the one who started it is killed.
        private func endWithParent() {
            let parent = getppid()
            Thread.detachNewThread {
                while getppid() == parent { usleep(500_000) }
                _exit(1)
            }
        }
    }
#endif
