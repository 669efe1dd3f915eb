import Foundation
import Glibc
import RoundtableTestSupport

/// Records what processes do to the files below a folder, in one order: writes, truncations, syncs, changes of folders, and what the
/// processes acknowledge.
final class WriteRecorder: @unchecked Sendable {
    // @unchecked: the library and the functions are set once.
    private typealias Attach = @convention(c) (UnsafePointer<CChar>, UnsafePointer<CChar>) -> Void
    private typealias Sample = @convention(c) (UnsafePointer<CChar>) -> Void
    private typealias Hash = @convention(c) (UnsafeRawPointer, Int, UInt64) -> UInt64

    /// The largest size of a log, in bytes. The file is sparse.
    private static let capacity: Int64 = 256 << 20

    let library: URL
    private let hashFunction: Hash

    /// Compiles the library into this folder.
    init(in folder: URL) throws {
        library = try PreloadedLibrary.compile(Self.source, named: "recorder", in: folder)
        hashFunction = try Self.function("powercut_hash", of: Self.load(library))
    }

    private static func load(_ library: URL) throws -> UnsafeMutableRawPointer {
        guard let handle = dlopen(library.path, RTLD_NOW | RTLD_LOCAL) else {
            throw TestKitError("dlopen \(library.path): \(String(cString: dlerror()))")
        }
        return handle
    }

    private static func function<Function>(_ name: String, of handle: UnsafeMutableRawPointer) throws -> Function {
        guard let symbol = dlsym(handle, name) else { throw TestKitError("the recorder has no function \(name)") }
        return unsafeBitCast(symbol, to: Function.self)
    }

    func hash(_ bytes: [UInt8], _ seed: UInt64) -> UInt64 {
        bytes.withUnsafeBytes { hashFunction($0.baseAddress ?? UnsafeRawPointer(bitPattern: 1)!, $0.count, seed) }
    }

    /// Records the processes that are started with the environment, while `body` runs. `sample` adds the content of a mapped file.
    ///
    /// - Parameters:
    ///   - folder: the recorded folder, with symbolic links resolved.
    ///   - log: where the log lies meanwhile.
    func record(
        _ folder: URL,
        log: URL,
        _ body: (_ environment: [String: String], _ sample: (URL) -> Void) throws -> Void
    ) throws -> RecordedTrace {
        let header = RecordedTrace.emptyHeader
        guard FileManager.default.createFile(atPath: log.path, contents: Data(header)),
            truncate(log.path, off_t(Self.capacity)) == 0
        else { throw TestKitError("\(log.path) cannot be created") }
        defer { try? FileManager.default.removeItem(at: log) }
        // Each recording has a copy of the library of its own, because the library has one log.
        let copy = log.appendingPathExtension("so")
        try FileManager.default.copyItem(at: library, to: copy)
        defer { try? FileManager.default.removeItem(at: copy) }
        let handle = try Self.load(copy)
        let attach: Attach = try Self.function("powercut_attach", of: handle)
        let sample: Sample = try Self.function("powercut_sample", of: handle)
        attach(log.path, folder.path)
        var environment = PreloadedLibrary.environment(preloading: library)
        environment["ROUNDTABLE_POWERCUT_LOG"] = log.path
        environment["ROUNDTABLE_POWERCUT_FOLDER"] = folder.path
        try body(environment) { sample($0.path) }
        return try RecordedTrace(contentsOf: log)
    }
}
