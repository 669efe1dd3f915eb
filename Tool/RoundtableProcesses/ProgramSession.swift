import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Exchanges lines with a program that reads standard input and writes standard output, such as the `sqlite3` shell. Only one thread
/// at a time may use it.
package final class ProgramSession {
    package let process: ChildProcess
    private var input: [UInt8] = []

    package init(_ process: ChildProcess) { self.process = process }

    package func send(_ line: String) throws {
        let bytes = Array((line + "\n").utf8)
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { bytes in
                #if canImport(Darwin)
                    Darwin.send(process.socket, bytes.baseAddress! + sent, bytes.count - sent, 0)
                #else
                    Glibc.send(process.socket, bytes.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
                #endif
            }
            if count == -1, errno == EINTR { continue }
            guard count > 0 else { throw TestKitError("'\(line)': \(process.errorText)") }
            sent += count
        }
    }

    /// The next line that the program writes.
    package func receive(within timeout: Duration = .seconds(30)) throws -> String {
        let deadline = ContinuousClock.now + timeout
        while true {
            if let end = input.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: input[..<end], as: UTF8.self)
                input.removeSubrange(...end)
                return line
            }
            let left = (deadline - .now) / .milliseconds(1)
            guard left > 0 else { throw TestKitError("no answer within \(timeout): \(process.errorText)") }
            var request = pollfd(fd: process.socket, events: Int16(POLLIN), revents: 0)
            guard poll(&request, 1, Int32(left.rounded(.up))) > 0 else { continue }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = recv(process.socket, &buffer, buffer.count, 0)
            if count == -1, errno == EINTR { continue }
            guard count > 0 else { throw TestKitError("the program has ended: \(process.errorText)") }
            input += buffer[..<count]
        }
    }
}
