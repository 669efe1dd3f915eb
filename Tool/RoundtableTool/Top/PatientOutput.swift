import Foundation
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Standard output that is a terminal, for a program that must react while nobody reads what the terminal shows: its buffer is full then,
/// and a write blocks.
final class PatientOutput {
    /// A file description of our own, in which writes do not block. Standard output has one that other programs share, whose flags must
    /// stay. It is standard output itself if the terminal has no name that can be opened; writes may block then.
    private let descriptor: Int32

    init() {
        let name = ttyname(STDOUT_FILENO)
        let own = name.map { open($0, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) } ?? -1
        descriptor = own == -1 ? STDOUT_FILENO : own
    }

    func close() {
        if descriptor != STDOUT_FILENO { systemClose(descriptor) }
    }

    /// Writes until `rest` is empty, the deadline has passed, or another descriptor is readable.
    ///
    /// - Parameters:
    ///   - rest: what is left to be written.
    ///   - deadline: in ns of the monotonic clock; nil: none.
    ///   - other: a descriptor to read from, such as that of signals; nil: none.
    /// - returns: whether everything was written.
    /// - throws: `OutputError`.
    func write(
        _ rest: inout ArraySlice<UInt8>,
        until deadline: Nanoseconds? = nil,
        orUntilReadable other: Int32? = nil
    ) throws -> Bool {
        while !rest.isEmpty {
            var requests = [
                pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0),
                // The system ignores a negative descriptor.
                pollfd(fd: other ?? -1, events: Int16(POLLIN), revents: 0),
            ]
            let left = deadline.map { ($0.subtractingSaturating(MonotonicClock.now) + 999_999) / 1_000_000 }
            let count = poll(&requests, 2, left.map { Int32(clamping: $0) } ?? -1)
            if requests[1].revents != 0 || count == 0 { return false }
            if count == -1 { continue }
            let written = rest.withUnsafeBytes { Self.systemWrite(descriptor, $0.baseAddress, $0.count) }
            if written == -1, errno == EINTR || errno == EAGAIN { continue }
            guard written > 0 else { throw OutputError(errno: errno) }
            rest = rest.dropFirst(written)
        }
        return true
    }

    // The module is named because `write` is also a method of this type.
    #if canImport(Darwin)
        private static let systemWrite = Darwin.write
    #else
        private static let systemWrite = Glibc.write
    #endif
}

/// close(2), which is also the name of methods.
func systemClose(_ descriptor: Int32) {
    #if canImport(Darwin)
        _ = Darwin.close(descriptor)
    #else
        _ = Glibc.close(descriptor)
    #endif
}
