import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A file of 8 bytes in which a peer counts its acknowledged commits. The count survives the peer's death, because `pwrite` has
/// passed it to the kernel.
package final class ProgressFile {
    private let descriptor: Int32

    /// Opens the file for counting, and creates it if it does not exist.
    package init(countingAt path: String) throws {
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
        try check(descriptor, "open \(path)")
    }

    deinit { close(descriptor) }

    package func record(_ count: Int) {
        var number = UInt64(count)
        pwrite(descriptor, &number, MemoryLayout<UInt64>.size, 0)
    }

    /// Reads the count; 0 when nothing has been acknowledged yet.
    package static func count(at path: String) -> Int {
        guard let data = FileManager.default.contents(atPath: path), data.count == 8 else { return 0 }
        return Int(data.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) })
    }
}
