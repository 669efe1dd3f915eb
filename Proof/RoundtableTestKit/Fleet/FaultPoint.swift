import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A named point in a program at which a fleet can delay it, so that a test reaches the moments that are rarely met.
///
/// ```swift
/// let balance = try await read()
/// FaultPoint.pass("between read and write")
/// try await write(balance + 1)
/// ```
///
/// Outside of a fleet, passing a point only compares a pointer. A ``FaultPlan`` arms a point; the next process that passes it waits.
public enum FaultPoint {
    static let variable = "ROUNDTABLE_FLEET_POINTS"

    /// The folder with a file for each point that is armed.
    private static let folder = ProcessInfo.processInfo.environment[variable].map { URL(fileURLWithPath: $0) }

    /// Waits if a fleet has armed this point. Any thread may call it, in any process.
    public static func pass(_ name: String) {
        guard let folder else { return }
        let file = file(name, in: folder)
        guard access(file, F_OK) == 0, let text = try? String(contentsOfFile: file, encoding: .utf8),
            let microseconds = Int(text)
        else { return }
        // Of several processes that pass, the one that removes the file waits.
        guard unlink(file) == 0 else { return }
        usleep(UInt32(clamping: microseconds))
    }

    /// - returns: false when the point was armed already, because no process has passed it since.
    static func arm(_ name: String, for time: Duration, in folder: URL) throws -> Bool {
        let file = file(name, in: folder)
        guard access(file, F_OK) != 0 else { return false }
        try Data(String(Int(time / .microseconds(1))).utf8).write(to: URL(fileURLWithPath: file), options: .atomic)
        return true
    }

    private static func file(_ name: String, in folder: URL) -> String {
        let isPlain: (Unicode.Scalar) -> Bool = { CharacterSet.alphanumerics.contains($0) }
        let plain = name.unicodeScalars.map { isPlain($0) ? String($0) : "_\($0.value)_" }.joined()
        return folder.appendingPathComponent(plain).path
    }
}
