import Foundation
import RoundtableTestSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Reads commands from standard input, and writes replies to standard output.
final class CommandChannel {
    private var input: [UInt8] = []

    /// Waits for the next command, and returns it. At the end of the input, it ends the process.
    func next() -> PeerCommand {
        while true {
            let line = nextLine()
            do {
                return try JSONDecoder().decode(PeerCommand.self, from: line)
            } catch {
                reply(PeerReply(.failed, message: "not a command: \(String(decoding: line, as: UTF8.self))"))
            }
        }
    }

    /// Waits for the next line, and returns it. At the end of the input, it ends the process.
    func nextLine() -> Data {
        while true {
            if let end = input.firstIndex(of: UInt8(ascii: "\n")) {
                defer { input.removeSubrange(...end) }
                return Data(input[..<end])
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = read(0, &buffer, buffer.count)
            if count == -1, errno == EINTR { continue }
            if count <= 0 { exit(0) }
            input += buffer[..<count]
        }
    }

    /// Whether a command, or the end of the input, can be read without waiting.
    var hasInput: Bool {
        if input.contains(UInt8(ascii: "\n")) { return true }
        var request = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
        return poll(&request, 1, 0) > 0
    }

    func reply(_ reply: PeerReply) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        guard let data = try? encoder.encode(reply) else { preconditionFailure("a reply is always JSON") }
        send([UInt8](data))
    }

    func reply(_ text: String) { send([UInt8](text.utf8)) }

    /// Writes a line.
    private func send(_ text: [UInt8]) {
        let line = text + [UInt8(ascii: "\n")]
        var written = 0
        while written < line.count {
            let count = line.withUnsafeBytes { write(1, $0.baseAddress! + written, line.count - written) }
            if count == -1, errno == EINTR { continue }
            // The test has ended.
            if count <= 0 { exit(0) }
            written += count
        }
    }
}
