import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A reader of bytes that others can write, for libFuzzer. `make fuzz` runs all of them.
protocol FuzzTarget: SendableMetatype {
    static var name: String { get }

    /// Bytes that real objects have written.
    static func seeds() throws -> [[UInt8]]

    /// Reads the bytes. A trap, a report of Address Sanitizer, a failed `require`, and a run beyond libFuzzer's time-out are findings.
    static func run(_ input: [UInt8]) throws
}

let targets: [any FuzzTarget.Type] = [
    ControlBlockTarget.self, RingTarget.self, OtherBlockTarget.self, SnapshotTarget.self, CommandTarget.self,
    CommandNameTarget.self, AnswerTarget.self, TokenTarget.self, URITarget.self, StoreObjectTarget.self,
]

/// Ends the process, with a message, unless `condition` holds: libFuzzer then writes the input to a file.
func require(_ condition: Bool, _ message: @autoclosure () -> String) {
    if !condition { fatalError(message()) }
}

@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<Int32>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ body: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32

// Set once, before the driver runs.
nonisolated(unsafe) private var chosen: any FuzzTarget.Type = ControlBlockTarget.self

@main
enum Fuzz {
    static func main() throws {
        let arguments = CommandLine.arguments
        guard arguments.count > 1 else {
            print(targets.map { $0.name }.joined(separator: "\n"))
            return
        }
        guard let target = targets.first(where: { $0.name == arguments[1] }) else {
            throw FuzzFailure("there is no target '\(arguments[1])'")
        }
        if arguments.count > 3, arguments[2] == "seeds" { return try writeSeeds(of: target, into: arguments[3]) }
        chosen = target
        var rest = ([arguments[0]] + arguments.dropFirst(2)).map { strdup($0) } + [nil]
        var count = Int32(rest.count - 1)
        let status = rest.withUnsafeMutableBufferPointer { buffer in
            var base = buffer.baseAddress!
            return runDriver(&count, &base) { bytes, size in
                do {
                    try chosen.run(Array(UnsafeBufferPointer(start: bytes, count: size)))
                } catch {
                    fatalError("\(error)")
                }
                return 0
            }
        }
        exit(status)
    }

    private static func writeSeeds(of target: any FuzzTarget.Type, into folder: String) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for (number, seed) in try target.seeds().enumerated() {
            try Data(seed).write(to: URL(fileURLWithPath: "\(folder)/seed-\(number)"))
        }
    }
}

/// Takes numbers and bytes from an input; zeros after its end.
struct FuzzInput {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isEmpty: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    mutating func number<Number: FixedWidthInteger>(_: Number.Type = Number.self) -> Number {
        (0..<MemoryLayout<Number>.size).reduce(0) { $0 | Number(truncatingIfNeeded: byte()) << ($1 * 8) }
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    mutating func all() -> [UInt8] { bytes(rest.count) }
}

/// A folder in memory that lasts as long as the process.
enum FuzzFolder {
    static let path: String = {
        let parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NSTemporaryDirectory()
        var template = Array("\(parent)/roundtable-fuzz-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("no temporary folder: errno \(errno)") }
        atexit { try? FileManager.default.removeItem(atPath: FuzzFolder.path) }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }()

    static func file(_ name: String) -> String { "\(path)/\(name)" }

    static func put(_ bytes: [UInt8], as name: String) throws {
        let descriptor = open(file(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0, write(descriptor, bytes, bytes.count) == bytes.count else {
            throw FuzzFailure("cannot write \(file(name)): errno \(errno)")
        }
        close(descriptor)
    }
}

struct FuzzFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

extension [UInt8] {
    func word(at offset: Int) -> UInt64 { self[offset..<offset + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) } }

    mutating func put(_ value: some FixedWidthInteger, at offset: Int) {
        Swift.withUnsafeBytes(of: value.littleEndian) { replaceSubrange(offset..<offset + $0.count, with: $0) }
    }
}
