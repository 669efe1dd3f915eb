import Foundation
import RoundtableProcesses
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Pipes for programs. `exec` closes them, and their descriptors are none of those that a program has. A child that another thread starts just while
/// one is made may inherit an end: `ProgramRun.wait` does not depend on the end of the output.
enum ProgramPipe {
    static func make() throws -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw POSIXError.last }
        guard let reading = aside(ends[0]) else {
            let error = POSIXError.last
            close(ends[1])
            throw error
        }
        guard let writing = aside(ends[1]) else {
            let error = POSIXError.last
            close(reading)
            throw error
        }
        return (reading, writing)
    }

    /// A pipe that holds a text, and its end.
    ///
    /// - returns: the end to read from, which the caller closes.
    static func filled(with text: String) throws -> Int32 {
        let (reading, writing) = try make()
        defer { close(writing) }
        _ = fcntl(writing, F_SETFL, O_NONBLOCK)
        let bytes = Array(text.utf8)
        guard write(writing, bytes, bytes.count) == bytes.count else {
            close(reading)
            throw ToolError("a configuration of \(bytes.count) bytes cannot be passed to a program. Shorten the URL.")
        }
        return reading
    }

    /// Moves a descriptor to a number that a program does not use, and lets `exec` close it.
    static func aside(_ descriptor: Int32) -> Int32? {
        let moved = fcntl(descriptor, F_DUPFD_CLOEXEC, ProgramRun.freeDescriptor)
        let error = errno
        close(descriptor)
        errno = error
        return moved == -1 ? nil : moved
    }
}
