import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// One `roundtable-peer` process, and the exchange of commands and replies with it.
package final class Peer {
    package let name: String
    package let process: ChildProcess
    package let progressPath: String
    private var input: [UInt8] = []

    init(name: String, process: ChildProcess, progressPath: String) {
        self.name = name
        self.process = process
        self.progressPath = progressPath
    }

    package var pid: Int32 { process.pid }

    /// The number of transactions that the peer has acknowledged as committed. It is known even after the peer's death.
    package var acknowledged: Int { ProgressFile.count(at: progressPath) }

    // MARK: Commands

    /// Sends a command, and waits for its reply.
    ///
    /// - throws: `TestKitError` when the reply is not `done`, the process ends, or `timeout` passes.
    @discardableResult
    package func call(_ command: PeerCommand, within timeout: Duration = .seconds(30)) throws -> PeerReply {
        let reply = try attempt(command, within: timeout)
        guard reply.outcome == .done else {
            throw TestKitError("\(self): \(command) \(reply.outcome): \(reply.message ?? "")")
        }
        return reply
    }

    /// Sends a command, waits for its reply, and returns it even if it is not `done`.
    package func attempt(_ command: PeerCommand, within timeout: Duration = .seconds(30)) throws -> PeerReply {
        try send(command)
        return try reply(within: timeout)
    }

    /// Sends a command without waiting for its reply.
    package func send(_ command: PeerCommand) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        let line = try encoder.encode(command) + [UInt8(ascii: "\n")]
        var sent = 0
        while sent < line.count {
            let count = line.withUnsafeBytes { bytes in
                #if canImport(Darwin)
                    Darwin.send(process.socket, bytes.baseAddress! + sent, bytes.count - sent, 0)
                #else
                    Glibc.send(process.socket, bytes.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
                #endif
            }
            if count == -1, errno == EINTR { continue }
            guard count > 0 else { throw gone(command: "\(command)") }
            sent += count
        }
    }

    /// Waits for the reply to the first command that has no reply yet.
    package func reply(within timeout: Duration = .seconds(30)) throws -> PeerReply {
        let deadline = ContinuousClock.now + timeout
        var searched = input.startIndex
        while true {
            if let end = input[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                let line = Data(input[..<end])
                input.removeSubrange(...end)
                return try JSONDecoder().decode(PeerReply.self, from: line)
            }
            searched = input.endIndex
            let left = (deadline - .now) / .milliseconds(1)
            guard left > 0 else { throw TestKitError("\(self): no reply within \(timeout)\n\(process.errorText)") }
            var request = pollfd(fd: process.socket, events: Int16(POLLIN), revents: 0)
            guard poll(&request, 1, Int32(left.rounded(.up))) > 0 else { continue }
            var buffer = [UInt8](repeating: 0, count: 65536)
            let count = recv(process.socket, &buffer, buffer.count, 0)
            if count == -1, errno == EINTR { continue }
            guard count > 0 else { throw gone(command: "reply") }
            input += buffer[..<count]
        }
    }

    /// Ends a running `writeLoop`, and returns its report.
    package func stopLoop(within timeout: Duration = .seconds(30)) throws -> WriteReport {
        try send(.stop)
        let report = try report(within: timeout)
        _ = try reply(within: timeout)
        return report
    }

    /// Waits for the end of a `writeLoop`.
    package func report(within timeout: Duration = .seconds(60)) throws -> WriteReport {
        let reply = try reply(within: timeout)
        guard let report = reply.report else {
            throw TestKitError("\(self): the loop \(reply.outcome): \(reply.message ?? "")")
        }
        return report
    }

    private func gone(command: String) -> TestKitError {
        let exit = (try? process.waitForExit(within: .seconds(2))).map { "\($0)" } ?? "is running"
        return TestKitError("\(self): gone at '\(command)': \(exit)\n\(process.errorText)")
    }
}

extension Peer: CustomStringConvertible {
    package var description: String { "peer '\(name)' (pid \(pid))" }
}
