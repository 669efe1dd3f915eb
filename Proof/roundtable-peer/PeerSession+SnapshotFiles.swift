import Foundation
import Roundtable
import RoundtableKernel
import RoundtableTestSupport

extension PeerSession {
    func perform(_ command: SnapshotFileCommand) throws -> PeerReply {
        switch command {
        case .write(let path, let number):
            let info = try file(path).write(PeerSnapshotValue(number: number, size: 100))
            return PeerReply(number: Int(info.sequence))
        case .writeLoop(let path, let seconds, let isDurable):
            return PeerReply(number: try write(file(path, isDurable: isDurable), seconds: seconds))
        case .readLoop(let path, let seconds, let isOrdered):
            return try read(file(path), seconds: seconds, isOrdered: isOrdered)
        case .follow(let path, let log):
            let progress = try ProgressFile(countingAt: log)
            // Only the task below uses the file from here on.
            nonisolated(unsafe) let counter = progress
            let file = file(path)
            Task.detached {
                for await reading in file.values() { if let value = reading.value { counter.record(value.number) } }
            }
            return PeerReply()
        }
    }

    private func file(_ path: String, isDurable: Bool = false) -> SnapshotFile<PeerSnapshotValue> {
        var options = SnapshotFileOptions()
        options.durability = isDurable ? .machine : .process
        return SnapshotFile(at: URL(fileURLWithPath: path), as: "pid \(getpid())", options: options)
    }

    private func write(_ file: SnapshotFile<PeerSnapshotValue>, seconds: Double) throws -> Int {
        let end = MonotonicClock.now + Nanoseconds(seconds * 1e9)
        var count = 0
        while MonotonicClock.now < end, !channel.hasInput {
            count += 1
            try file.write(PeerSnapshotValue(number: count, size: .random(in: 0...100_000)))
        }
        return count
    }

    private func read(
        _ file: SnapshotFile<PeerSnapshotValue>,
        seconds: Double,
        isOrdered: Bool
    ) throws -> PeerReply {
        let end = MonotonicClock.now + Nanoseconds(seconds * 1e9)
        var count = 0
        var last: SnapshotInfo?
        while MonotonicClock.now < end, !channel.hasInput {
            switch try file.read() {
            case .value(let value, let info):
                if !value.isWhole { return PeerReply(number: count, message: "half a value: \(info)") }
                if let last, isOrdered, info.sequence < last.sequence {
                    return PeerReply(number: count, message: "\(info) after \(last)")
                }
                last = info
                count += 1
            case .absent where last == nil: continue
            case let other: return PeerReply(number: count, message: "\(other)")
            }
        }
        return PeerReply(number: count)
    }
}

extension PeerReply {
    fileprivate init(number: Int, message: String) { self.init(.done, message: message, number: number) }
}
