#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    @testable import RoundtableTestKit

    /// Any user of the machine can connect to an abstract socket.
    @Suite struct SecurityDeskTests {
        /// The desk answers a connection.
        private func expectToBeServed(_ connection: Int32, sourceLocation: SourceLocation = #_sourceLocation) throws {
            AbstractSocket.send(.begin(id: 1, name: "work"), to: connection)
            var lines = SocketLines()
            var answer: [SuspensionMessage]? = []
            try eventually("an honest process is answered, or its connection closed") {
                answer = lines.read(connection).map { (answer ?? []) + $0 }
                return answer?.isEmpty != true
            }
            #expect(answer == [.granted(id: 1)], sourceLocation: sourceLocation)
        }

        /// A connection that sends what is no line is closed, and does not disturb the police.
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
            try expectToBeServed(honest)
        }

        /// Connections of another user take a bounded number of files, and those of the judged processes are served.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to become another user"), .timeLimit(.minutes(1)))
        func manyConnectionsOfAnotherUser() throws {
            let desk = try SuspensionDesk(grantsAssertions: true)
            defer { desk.end() }
            let name = desk.name
            let most = SuspensionDesk.mostOfOtherUser
            let crowd = try OtherUser.runBlocking { try (0..<most + 40).map { _ in try AbstractSocket.connect(name) } }
            defer { for descriptor in crowd { close(descriptor) } }
            try eventually("the connections beyond the limit are closed") {
                desk.catchUp()
                let closed = crowd.count { descriptor in
                    var byte: UInt8 = 0
                    return recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_PEEK)) == 0
                }
                return closed == 40
            }
            let honest = try AbstractSocket.connect(desk.name)
            defer { close(honest) }
            try expectToBeServed(honest)
        }

        /// A user who has as many connections as a user may have prevents no other user from connecting.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to become another user"), .timeLimit(.minutes(1)))
        func manyConnectionsOfOneUserLeaveRoomForAnother() throws {
            let desk = try SuspensionDesk(grantsAssertions: true)
            defer { desk.end() }
            let (name, most) = (desk.name, SuspensionDesk.mostOfOtherUser)
            let crowd = try OtherUser.runBlocking { try (0..<most).map { _ in try AbstractSocket.connect(name) } }
            defer { for descriptor in crowd { close(descriptor) } }
            let honest = try OtherUser.runBlocking(as: 65533) { try AbstractSocket.connect(name) }
            defer { close(honest) }
            try expectToBeServed(honest)
        }

        /// A process that the system does not show, because this one has too many files open, is an error, and not one that has ended
        /// without a conviction.
        @Test(.timeLimit(.minutes(1))) func aProcessThatIsNotShown() throws {
            let police = try SuspensionPolice()
            defer { police.end() }
            let pid = try police.launch(["/bin/sleep", "1000"])
            let faults = [Fault(.readProcess, errno: EMFILE)]
            let error = #expect(throws: SuspensionPoliceError.self) {
                try System.withFaults(faults) { try police.freeze(pid) }
            }
            #expect(error?.description.contains("cannot look at process \(pid)") == true, "\(error?.description ?? "")")
            #expect(throws: SuspensionPoliceError.self) {
                try System.withFaults(faults) { try police.patrol(pid, freezes: 5) }
            }
            #expect(try police.freeze(pid).outcome == .released)
        }
    }
#endif
