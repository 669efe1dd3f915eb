#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A pipe that ends the `poll` of another thread.
final class Interrupter: Sendable {
    let descriptor: Int32
    private let writer: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        try System.perform(.pipe) { pipe(&ends) }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        (descriptor, writer) = (ends[0], ends[1])
    }

    deinit {
        close(descriptor)
        close(writer)
    }

    /// Ends the running wait and all later ones.
    func interrupt() {
        var byte: UInt8 = 1
        // A write that fails because the pipe is full still interrupts the wait.
        _ = write(writer, &byte, 1)
    }
}

/// Waits until one of two descriptors has something to read.
///
/// - returns: the descriptors that have something to read; neither when the time is over.
func waitForInput(
    _ descriptor: Int32?,
    _ interrupter: Interrupter,
    timeout: Nanoseconds?
) throws -> (input: Bool, interrupt: Bool) {
    var requests = [pollfd(fd: interrupter.descriptor, events: Int16(POLLIN), revents: 0)]
    if let descriptor { requests.append(pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)) }
    let milliseconds = timeout.map { Int32(clamping: ($0 + 999_999) / 1_000_000) } ?? -1
    try System.perform(.poll) { poll(&requests, nfds_t(requests.count), milliseconds) }
    return (requests.count > 1 && requests[1].revents != 0, requests[0].revents != 0)
}
