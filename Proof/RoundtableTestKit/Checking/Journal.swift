import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The file in which one worker records its transactions: a line before each, and one after it.
///
/// Each line goes to the kernel by one `write(2)`, so it survives SIGKILL of the worker. A line is `B INDEX TIME STEPS` before the
/// transaction; then `C INDEX TIME STEPS` (committed), `F INDEX TIME` (failed) or `U INDEX TIME` (unknown).
final class Journal {
    static let suffix = ".journal"

    private let descriptor: Int32
    private let path: String
    private(set) var nextIndex: Int

    /// - parameter nextIndex: the number of the first transaction.
    init(worker: Int, in folder: URL, nextIndex: Int = 0) throws {
        path = folder.appendingPathComponent("\(worker)\(Self.suffix)").path
        self.nextIndex = nextIndex
        descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o666)
        try check(descriptor, "open \(path)")
    }

    deinit { close(descriptor) }

    /// - returns: the number of the transaction.
    func begin(_ steps: [Step]) throws -> Int {
        let index = nextIndex
        nextIndex += 1
        try write("B", index, steps)
        return index
    }

    func end(_ index: Int, _ outcome: TransactionRecord.Outcome, _ steps: [Step] = []) throws {
        switch outcome {
        case .committed: try write("C", index, steps)
        case .failed: try write("F", index, [])
        case .unknown: try write("U", index, [])
        }
    }

    private func write(_ letter: String, _ index: Int, _ steps: [Step]) throws {
        var line = "\(letter) \(index) \(monotonicNanoseconds())"
        for step in steps { line += " " + step.text }
        line += "\n"
        let count = line.utf8.count
        let written = line.withCString { text in
            #if canImport(Darwin)
                Darwin.write(descriptor, text, count)
            #else
                Glibc.write(descriptor, text, count)
            #endif
        }
        guard written == count else {
            throw TestKitError("write \(path): \(written) of \(count) bytes: \(String(cString: strerror(errno)))")
        }
    }

    // MARK: Reading

    /// The number of the last transaction that a worker has begun; nil when there is none.
    static func lastIndex(ofWorker worker: Int, in folder: URL) throws -> Int? {
        let path = folder.appendingPathComponent("\(worker)\(suffix)").path
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        return try records(in: data, worker: worker, path: path).last?.index
    }

    /// The records of a journal. A last line without an end, as a killed worker may leave it, is ignored.
    static func records(in data: Data, worker: Int, path: String) throws -> [TransactionRecord] {
        var records: [TransactionRecord] = []
        var open: TransactionRecord?
        try data.withUnsafeBytes { bytes in
            var scanner = JournalScanner(bytes)
            while let line = scanner.nextLine() {
                guard let line else {
                    throw RecordedHistoryError(description: "\(path): line \(scanner.line) is not one of a journal")
                }
                switch line.letter {
                case UInt8(ascii: "B"):
                    if let open { records.append(open) }
                    open = TransactionRecord(
                        worker: worker,
                        index: line.index,
                        began: line.time,
                        ended: nil,
                        outcome: .unknown,
                        steps: line.steps
                    )
                default:
                    guard var record = open, record.index == line.index else {
                        throw RecordedHistoryError(description: "\(path): line \(scanner.line) ends what has not begun")
                    }
                    open = nil
                    record.ended = line.time
                    if line.letter == UInt8(ascii: "C") {
                        record.outcome = .committed
                        record.steps = line.steps
                    } else if line.letter == UInt8(ascii: "F") {
                        record.outcome = .failed
                    }
                    records.append(record)
                }
            }
        }
        if let open { records.append(open) }
        return records
    }
}

/// Reads the lines of a journal.
struct JournalScanner {
    struct Line {
        var letter: UInt8
        var index: Int
        var time: Int64
        var steps: [Step]
    }

    private let bytes: UnsafeRawBufferPointer
    private var position = 0
    private(set) var line = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// - returns: nil at the end, and a line that is nil when it cannot be read.
    mutating func nextLine() -> Line?? {
        let rest = bytes.count - position
        guard rest > 0, let base = bytes.baseAddress,
            let end = memchr(base + position, Int32(UInt8(ascii: "\n")), rest)
        else { return .none }
        let limit = UnsafeRawPointer(end) - base
        defer { position = limit + 1 }
        line += 1
        guard limit - position > 2, bytes[position + 1] == UInt8(ascii: " ") else { return .some(nil) }
        let letter = bytes[position]
        guard "BCFU".utf8.contains(letter) else { return .some(nil) }
        position += 2
        guard let index = number(limit), skip(" ", limit), let time = number(limit) else { return .some(nil) }
        var steps: [Step] = []
        while position < limit {
            guard skip(" ", limit), let step = step(limit) else { return .some(nil) }
            steps.append(step)
        }
        return .some(Line(letter: letter, index: index, time: Int64(time), steps: steps))
    }

    private mutating func step(_ limit: Int) -> Step? {
        guard position < limit else { return nil }
        let letter = bytes[position]
        position += 1
        guard let object = number(limit), skip("=", limit) else { return nil }
        var numbers: [Int] = []
        while let next = number(limit) {
            numbers.append(next)
            guard skip(",", limit) else { break }
        }
        return Step(letter: letter, object: object, numbers: numbers)
    }

    private mutating func skip(_ character: Unicode.Scalar, _ limit: Int) -> Bool {
        guard position < limit, bytes[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private mutating func number(_ limit: Int) -> Int? {
        var place = position
        let isNegative = place < limit && bytes[place] == UInt8(ascii: "-")
        if isNegative { place += 1 }
        let first = place
        var value = 0
        while place < limit {
            let digit = Int(bytes[place]) &- 48
            guard digit >= 0, digit <= 9 else { break }
            let (product, overflows) = value.multipliedReportingOverflow(by: 10)
            // A negative number is counted downwards, because there is one more of them.
            let (next, overflowsToo) =
                isNegative ? product.subtractingReportingOverflow(digit) : product.addingReportingOverflow(digit)
            guard !overflows, !overflowsToo else { return nil }
            value = next
            place += 1
        }
        guard place > first else { return nil }
        position = place
        return value
    }
}

/// The monotonic clock, which is the same in all processes of a machine.
func monotonicNanoseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}
