import Testing

@testable import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The door to the operating system.
@Suite struct SystemCallTests {
    /// A call that a signal has interrupted is made again, and nothing else is.
    @Test func interruptedCallsAreMadeAgain() throws {
        var count = 0
        let value = try System.perform(.read) { () -> Int in
            count += 1
            guard count < 4 else { return 7 }
            errno = EINTR
            return -1
        }
        #expect(value == 7 && count == 4)

        count = 0
        let error = #expect(throws: SystemError.self) {
            try System.perform(.open, "/a/path") { () -> Int32 in
                count += 1
                errno = EAGAIN
                return -1
            }
        }
        #expect(count == 1 && error?.errno == EAGAIN && error?.path == "/a/path" && error?.call == .open)
    }

    /// A fault that is injected takes the place of the call, as often as it says.
    @Test func faultsTakeThePlaceOfCalls() throws {
        try System.withFaults([Fault(.write, errno: EIO, skipping: 1, times: 1)]) { () throws -> Void in
            var count = 0
            func call() throws -> Int32 {
                try System.perform(.write) {
                    count += 1
                    return 1
                }
            }
            #expect(try call() == 1)
            #expect(throws: SystemError.self) { try call() }
            #expect(try call() == 1)
            #expect(count == 2)
        }
    }
}
