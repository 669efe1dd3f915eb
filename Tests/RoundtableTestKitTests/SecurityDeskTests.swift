#if os(Linux)
    import Foundation
    import Glibc
    import Testing

    @testable import RoundtableTestKit

    /// Any user of the machine can connect to an abstract socket.
    @Suite struct SecurityDeskTests {
        /// A connection that sends what is no line is closed, and keeps the police from nothing.
        @Test(.timeLimit(.minutes(1)))
        func aConnectionThatSendsNoLine() throws {
            let desk = try SuspensionDesk(grantsAssertions: true)
            defer { desk.end() }
            let flood = try AbstractSocket.connect(desk.name)
            defer { close(flood) }
            let bytes = [UInt8](repeating: UInt8(ascii: "x"), count: 4096)
            var sent = 0
            // The other end closes it: `send` fails then.
            while sent < 64 << 20 {
                let count = Glibc.send(flood, bytes, bytes.count, Int32(MSG_NOSIGNAL))
                if count == -1, errno == EINTR { continue }
                if count == -1 { break }
                sent += count
            }
            #expect(sent < 4 << 20, "\(sent) bytes were taken")
            desk.catchUp()
            #expect(desk.connectedPids(among: [getpid()]).isEmpty)
            let honest = try AbstractSocket.connect(desk.name)
            defer { close(honest) }
            AbstractSocket.send(.begin(id: 1, name: "work"), to: honest)
            var lines = SocketLines()
            var answer: [SuspensionMessage] = []
            try eventually("an honest process is answered") {
                answer += lines.read(honest) ?? []
                return !answer.isEmpty
            }
            #expect(answer == [.granted(id: 1)])
        }
    }
#endif
